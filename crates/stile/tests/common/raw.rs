//! Requests written to a socket by hand.
//!
//! A process that is stopped still has its socket: the system takes connections and bytes for it.
//! What is written here waits there until the process goes on.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Answer;

/// A request that has been handed to the system whole and is not answered yet.
#[derive(Debug)]
pub(crate) struct Pending {
    stream: TcpStream,
}

impl Pending {
    /// Sends a POST with a JSON body.
    pub(crate) async fn post(address: &str, path: &str, body: &str) -> Self {
        let head = format!("POST {path} HTTP/1.1\r\nContent-Type: application/json\r\n");
        Self::send(address, &head, body.as_bytes()).await
    }

    /// Sends a request line and headers, each ended by CRLF, and a body.
    pub(crate) async fn send(address: &str, head: &str, body: &[u8]) -> Self {
        let mut stream = TcpStream::connect(address).await.expect("connect");
        let length = body.len();
        let head = format!(
            "{head}Host: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.expect("write the head");
        stream.write_all(body).await.expect("write the body");
        Self { stream }
    }

    /// Waits for the answer.
    pub(crate) async fn answer(mut self) -> Answer {
        let mut bytes = Vec::new();
        let reading = self.stream.read_to_end(&mut bytes);
        let read = tokio::time::timeout(testkit::DEADLINE, reading).await.expect("an answer");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        read.unwrap_or_else(|error| panic!("{error} after {text:?}"));
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("cut: {text:?}"));
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status line");
        let headers = lines.filter_map(|line| line.split_once(": "));
        Answer {
            status: status.parse().expect("a status"),
            headers: headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect(),
            text: body.to_owned(),
        }
    }
}
