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
        Self::send_to(address, address, head, body).await
    }

    /// The same, with another name for the server.
    pub(crate) async fn send_to(address: &str, host: &str, head: &str, body: &[u8]) -> Self {
        let mut stream = TcpStream::connect(address).await.expect("connect");
        let length = body.len();
        let head =
            format!("{head}Host: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.expect("write the head");
        // A server that has heard enough answers and closes; its answer is what counts.
        let _ = stream.write_all(body).await;
        Self { stream }
    }

    /// Waits for the answer.
    pub(crate) async fn answer(mut self) -> Answer {
        let mut bytes = Vec::new();
        let reading = self.stream.read_to_end(&mut bytes);
        let read = tokio::time::timeout(testkit::DEADLINE, reading).await.expect("an answer");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        // What came before an end that was not a polite one is whole or it is not.
        let (head, body) = text
            .split_once("\r\n\r\n")
            .filter(|(head, body)| read.is_ok() || announces(head, body))
            .unwrap_or_else(|| panic!("{read:?} after {text:?}"));
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

/// Whether the head says that the body is as long as it is.
fn announces(head: &str, body: &str) -> bool {
    let length = format!("content-length: {}", body.len());
    head.lines().any(|line| line.eq_ignore_ascii_case(&length))
}
