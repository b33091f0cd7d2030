//! A proxy that cuts, freezes and loses answers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::net::SocketAddr;
use std::time::Duration;

use testkit::{DEADLINE, TcpProxy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// A server that sends back what it gets.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    address
}

/// Sends a word and returns what comes back; `None` if the connection is closed instead.
async fn say(stream: &mut TcpStream, word: &str) -> Option<String> {
    stream.write_all(word.as_bytes()).await.ok()?;
    let mut answer = vec![0; word.len()];
    let read =
        timeout(DEADLINE, stream.read_exact(&mut answer)).await.expect("an answer or an end");
    read.ok()?;
    Some(String::from_utf8(answer).unwrap())
}

#[tokio::test]
async fn bytes_pass_both_ways_and_the_end_passes_too() {
    let proxy = TcpProxy::start(echo().await).await;
    let mut stream = TcpStream::connect(proxy.addr()).await.unwrap();
    assert_eq!(say(&mut stream, "hello").await.as_deref(), Some("hello"));

    let long = vec![7; 1_000_000];
    let (mut read, mut write) = stream.split();
    let send = async {
        write.write_all(&long).await.unwrap();
        write.shutdown().await.unwrap();
    };
    let mut back = Vec::new();
    let (received, ()) = tokio::join!(read.read_to_end(&mut back), send);
    received.unwrap();
    assert!(back == long, "{} of {} bytes came back", back.len(), long.len());
}

#[tokio::test]
async fn a_cut_closes_what_is_open_and_refuses_what_comes() {
    let proxy = TcpProxy::start(echo().await).await;
    let mut stream = TcpStream::connect(proxy.addr()).await.unwrap();
    assert_eq!(say(&mut stream, "hello").await.as_deref(), Some("hello"));
    proxy.cut().await;
    assert_eq!(say(&mut stream, "hello").await, None);
    let refused = TcpStream::connect(proxy.addr()).await.expect_err("refused");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);

    proxy.heal().await;
    let mut stream = TcpStream::connect(proxy.addr()).await.unwrap();
    assert_eq!(say(&mut stream, "again").await.as_deref(), Some("again"));
}

#[tokio::test]
async fn a_frozen_proxy_accepts_and_passes_nothing_until_healed() {
    let proxy = TcpProxy::start(echo().await).await;
    let mut old = TcpStream::connect(proxy.addr()).await.unwrap();
    assert_eq!(say(&mut old, "hello").await.as_deref(), Some("hello"));
    proxy.freeze();
    let mut new = TcpStream::connect(proxy.addr()).await.expect("accepted");
    for stream in [&mut old, &mut new] {
        let silence = timeout(Duration::from_millis(100), say(stream, "held")).await;
        assert!(silence.is_err(), "an answer through a frozen proxy");
    }
    proxy.heal().await;
    for stream in [&mut old, &mut new] {
        let mut answer = [0; 4];
        timeout(DEADLINE, stream.read_exact(&mut answer)).await.expect("in time").unwrap();
        assert_eq!(&answer, b"held");
    }
}

#[tokio::test]
async fn one_response_is_lost_with_its_connection() {
    let proxy = TcpProxy::start(echo().await).await;
    let mut stream = TcpStream::connect(proxy.addr()).await.unwrap();
    let mut bystander = TcpStream::connect(proxy.addr()).await.unwrap();
    proxy.drop_next_response_containing(b"done");
    assert_eq!(say(&mut stream, "begun").await.as_deref(), Some("begun"));
    assert_eq!(proxy.dropped_responses(), 0);
    assert_eq!(say(&mut stream, "it is done now").await, None);
    assert_eq!(proxy.dropped_responses(), 1);
    assert_eq!(say(&mut bystander, "done").await.as_deref(), Some("done"));
}
