//! Heads and bodies that do not come, idle connections, and too many of them.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::Solo;
use crate::common::{SIGNER, StileProcess};
use testkit::eventually;

async fn connect(node: &StileProcess) -> TcpStream {
    TcpStream::connect(node.address()).await.unwrap()
}

/// Reads to the end of the connection, which has to come.
async fn to_the_end(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let reading = stream.read_to_end(&mut bytes);
    // An end that is not a polite one is one.
    let _ = tokio::time::timeout(testkit::DEADLINE, reading).await.expect("an end");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Slow loris: each connection costs the sender a few bytes, and the server a place for ever.
#[tokio::test]
async fn hole_45_heads_that_do_not_come_are_not_waited_for() {
    let solo = Solo::start(|options| options.set("server.limits.headers_timeout", "1s")).await;
    let half = format!("POST /api/v1/nonces/{SIGNER}/allocate HTTP/1.1\r\nHost: loc");
    let mut open = Vec::new();
    for number in 0..300 {
        let mut stream = connect(&solo.node).await;
        // Some say nothing at all, and some ask once before they stop half-way.
        match number % 3 {
            0 => {}
            1 => stream.write_all(half.as_bytes()).await.unwrap(),
            _ => {
                let whole = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
                stream.write_all(whole).await.unwrap();
                stream.read_exact(&mut [0; 12]).await.unwrap();
                stream.write_all(half.as_bytes()).await.unwrap();
            }
        }
        open.push(stream);
    }
    for stream in open {
        to_the_end(stream).await;
    }
    eventually("their places to be free", async || {
        // The one that asks has a connection, too.
        (solo.node.metric("stile_http_connections").await <= 2.0).then_some(())
    })
    .await;
    assert!(solo.node.metric("stile_http_timeouts_total{limit=\"headers\"}").await >= 200.0);
    assert_eq!(solo.node.allocate(SIGNER).await.nonce(), 0);
}

#[tokio::test]
async fn hole_45_bodies_that_do_not_come_are_not_waited_for() {
    let solo = Solo::start(|options| options.set("server.limits.body_timeout", "1s")).await;
    let head = format!(
        "POST /api/v1/nonces/{SIGNER}/allocate HTTP/1.1\r\nHost: localhost\r\n\
         Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    );
    let mut stream = connect(&solo.node).await;
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut reading, mut writing) = stream.into_split();
    // A byte now and then buys no time.
    let trickle = tokio::spawn(async move {
        while writing.write_all(b" ").await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    });
    let mut bytes = Vec::new();
    let answer = reading.read_to_end(&mut bytes);
    let _ = tokio::time::timeout(testkit::DEADLINE, answer).await.expect("an end");
    trickle.abort();
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.starts_with("HTTP/1.1 408 ") && text.contains("body-too-slow"), "{text}");
    assert_eq!(solo.node.allocate(SIGNER).await.nonce(), 0);
}

#[tokio::test]
async fn hole_45_idle_connections_are_closed() {
    let solo = Solo::start(|options| options.set("server.limits.idle_timeout", "1s")).await;
    let mut stream = connect(&solo.node).await;
    stream.write_all(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let text = to_the_end(stream).await;
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
}

/// From this address of the machine.
async fn connect_from(node: &StileProcess, from: Ipv4Addr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((from, 0))).unwrap();
    socket.connect(node.address().parse().unwrap()).await.unwrap()
}

#[tokio::test]
async fn hole_45_one_address_cannot_take_all_connections() {
    let solo = Solo::start(|options| {
        options
            .set_literal("server.limits.connections", "12")
            .set_literal("server.limits.connections_per_address", "5")
    })
    .await;
    let (one, other) = (Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3));
    let asks = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let answered = async |stream: &mut TcpStream| {
        // One that there is no room for may be gone already.
        let _ = stream.write_all(asks).await;
        let mut bytes = [0; 12];
        let read = stream.read_exact(&mut bytes).await;
        read.is_ok().then(|| String::from_utf8_lossy(&bytes).into_owned())
    };
    let mut held = Vec::new();
    for _ in 0..5 {
        let mut stream = connect_from(&solo.node, one).await;
        assert_eq!(answered(&mut stream).await.as_deref(), Some("HTTP/1.1 200"));
        held.push(stream);
    }
    for _ in 0..20 {
        let refused = answered(&mut connect_from(&solo.node, one).await).await;
        assert_eq!(refused.as_deref(), Some("HTTP/1.1 503"), "it is told that there is no room");
    }
    let mut elsewhere = connect_from(&solo.node, other).await;
    assert_eq!(answered(&mut elsewhere).await.as_deref(), Some("HTTP/1.1 200"));
    assert!(
        solo.node.metric("stile_http_connections_refused_total{limit=\"address\"}").await >= 1.0
    );
    held.clear();
    eventually("there to be room again", async || {
        let answer = answered(&mut connect_from(&solo.node, one).await).await;
        (answer.as_deref() == Some("HTTP/1.1 200")).then_some(())
    })
    .await;
}
