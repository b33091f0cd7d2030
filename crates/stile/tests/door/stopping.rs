//! Who is waited for when a server stops.

use testkit::Authority;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::Solo;
use crate::tls::connect;

/// How HTTP/2 begins: with these words, and a frame of settings that sets none.
const BEGINS: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// The type of the frame that a head is in.
const HEADERS: u8 = 1;

/// `GET /health/live`, as the only frame of the first call.
fn asks(authority: &str) -> Vec<u8> {
    let text = |name: u8, text: &str| [&[name, text.len() as u8], text.as_bytes()].concat();
    // GET and https stand in the table that everybody has, and so do the names of the others.
    let head = [vec![0x82, 0x87], text(0x04, "/health/live"), text(0x01, authority)].concat();
    let (ends, length) = (0x05, head.len() as u8);
    [&[0, 0, length, HEADERS, ends, 0, 0, 0, 1][..], &head].concat()
}

/// Begins, asks once if there is something to ask, and says nothing more: not that the settings are
/// seen, nor that a ping or the end is.
async fn silent<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, asks: &[u8]) -> S {
    stream.write_all(&[BEGINS, asks].concat()).await.unwrap();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.unwrap();
        if asks.is_empty() || head[3] == HEADERS {
            return stream;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; length as usize]).await.unwrap();
    }
}

/// The end of HTTP/2 is agreed on, and somebody may say nothing to it.
#[tokio::test]
async fn hole_45_stopping_does_not_wait_for_those_who_do_nothing() {
    let authority = Authority::new();
    let certified = authority.certify("server", &["127.0.0.1"]);
    let solo = Solo::start(|options| {
        options
            .tls(&authority, &certified)
            .set("server.limits.headers_timeout", "10m")
            .set("server.shutdown_grace", "10s")
    })
    .await;
    let node = &solo.node;
    let connect = async || connect(node, &authority, None, &[b"h2"]).await.unwrap();
    let _begun = silent(connect().await, &[]).await;
    let _idle = silent(connect().await, &asks(&node.address())).await;
    let finished = node.terminate().await;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(!finished.stderr.contains("requests were still running"), "{finished:?}");
}
