//! A private Redis server.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use testkit::Redis;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends one inline command and returns the answer.
async fn ask(redis: &Redis, command: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", redis.port())).await.expect("connect");
    stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn it_answers_and_writes_nothing_to_disk() {
    let redis = Redis::start().await;
    assert_eq!(redis.url(), format!("redis://127.0.0.1:{}", redis.port()));
    assert!(ask(&redis, "PING").await.starts_with("+PONG"));
    assert!(ask(&redis, "CONFIG GET save").await.contains("save\r\n$0\r\n"));
    assert!(ask(&redis, "CONFIG GET appendonly").await.contains("no"));
}

#[tokio::test]
async fn two_servers_are_two() {
    let (one, other) = tokio::join!(Redis::start(), Redis::start());
    assert!(ask(&one, "SET key value").await.starts_with("+OK"));
    assert!(ask(&other, "GET key").await.starts_with("$-1"));
}
