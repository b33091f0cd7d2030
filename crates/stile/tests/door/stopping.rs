//! Who is waited for when a server stops.

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use testkit::Authority;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Solo;
use crate::common::SIGNER;
use crate::tls::connect;

const ASKS: &[u8] = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Asks once, and stops half-way in the next call.
async fn half_sent(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> impl Sized {
    stream.write_all(ASKS).await.unwrap();
    stream.read_exact(&mut [0; 12]).await.unwrap();
    let half = format!("POST /api/v1/nonces/{SIGNER}/allocate HTTP/1.1\r\nHost: loc");
    stream.write_all(half.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn hole_45_stopping_does_not_wait_for_those_who_do_nothing() {
    let solo = Solo::start(|options| {
        options.set("server.limits.headers_timeout", "10m").set("server.shutdown_grace", "6s")
    })
    .await;
    let connect = async || TcpStream::connect(solo.node.address()).await.unwrap();
    let _held = (connect().await, half_sent(connect().await).await);
    let finished = solo.node.terminate().await;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(!finished.stderr.contains("requests were still running"), "{finished:?}");
}

/// The end of HTTP/2 has to be agreed on, and somebody may say nothing to it.
#[tokio::test]
async fn hole_45_stopping_does_not_wait_for_a_silent_farewell() {
    let authority = Authority::new();
    let certified = authority.certify("server", &["127.0.0.1"]);
    let solo = Solo::start(|options| {
        options
            .tls(&authority, &certified)
            .set("server.limits.headers_timeout", "10m")
            .set("server.shutdown_grace", "6s")
    })
    .await;
    let node = &solo.node;
    let stream = connect(node, &authority, None, &[b"http/1.1"]).await.unwrap();
    let _half = half_sent(stream).await;
    let stream = connect(node, &authority, None, &[b"h2"]).await.unwrap();
    let shaken = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, mut connection) = shaken.await.unwrap();
    let uri = format!("https://{}/health/live", node.address());
    let request = hyper::Request::get(uri).body(Empty::<Bytes>::new()).unwrap();
    // From the answer on nobody reads what comes.
    tokio::select! {
        _ = &mut connection => panic!("the connection ended"),
        answer = sender.send_request(request) => assert_eq!(answer.unwrap().status(), 200),
    }
    let finished = node.terminate().await;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(!finished.stderr.contains("requests were still running"), "{finished:?}");
}
