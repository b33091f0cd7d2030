//! A word to a server, without a client.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Redis;

impl Redis {
    /// Sends one command, words with spaces in between, and returns the answer as it comes.
    ///
    /// Panics if the server refuses it.
    pub async fn command(&self, command: &str) -> String {
        let address = ("127.0.0.1", self.port());
        let mut stream = TcpStream::connect(address).await.expect("connect to Redis");
        stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes()).await.expect("ask Redis");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("read the answer of Redis");
        assert!(!answer.starts_with('-'), "{command}: {answer}");
        answer.strip_suffix("+OK\r\n").unwrap_or(&answer).to_owned()
    }
}
