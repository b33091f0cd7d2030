//! Endpoints over WebSocket.

use std::time::Duration;

use futures::StreamExt;
use stile_chain::{PoolOptions, SendClass};
use testkit::{TcpProxy, eventually};

use crate::support::*;

#[tokio::test]
async fn new_heads_are_announced_over_a_websocket() {
    let anvil = quiet_anvil().await;
    let url = anvil.url().replace("http", "ws");
    // Without announcements, the wait below would be for an hour.
    let options = PoolOptions { poll_interval: Duration::from_secs(3600), ..Default::default() };
    let pool = pool_with([url], options);
    let before = pool.view().await.unwrap().head().height;
    // The subscription is answered when it is; a block before that is not announced.
    eventually("an announcement", async || {
        anvil.mine(1).await;
        tokio::time::timeout(Duration::from_millis(100), pool.next_head()).await.ok()
    })
    .await;
    assert!(pool.view().await.unwrap().head().height > before);
}

#[tokio::test]
async fn without_a_websocket_it_is_the_interval() {
    let anvil = quiet_anvil().await;
    let options = PoolOptions { poll_interval: Duration::from_millis(10), ..Default::default() };
    pool_with([anvil.url()], options).next_head().await;
}

#[tokio::test]
async fn everything_works_over_a_websocket_and_again_after_it_broke() {
    let anvil = quiet_anvil().await;
    let proxy = TcpProxy::start(address_of(anvil.url())).await;
    let pool = pool([format!("ws://{}", proxy.addr())]);
    let raw: Vec<_> = (0..20).map(|nonce| signed(nonce).raw).collect();
    let answers = pool.send_raw(&raw).await;
    assert!(answers.iter().all(|answer| answer.verdict == SendClass::Accepted), "{answers:?}");
    proxy.cut().await;
    eventually("the break to be seen", async || pool.view().await.err()).await;
    proxy.heal().await;
    eventually("the connection to be made again", async || pool.view().await.ok()).await;
    let hash = signed(0).hash;
    assert_eq!(pool.known(&[hash]).await, Ok(vec![true]));
}

/// The task that reads the socket ends with the pool: the server sees the connection close.
#[tokio::test]
async fn the_connection_ends_with_the_pool() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let pool = pool([format!("ws://{}", listener.local_addr().unwrap())]);
    let view = tokio::spawn({
        let pool = std::sync::Arc::clone(&pool);
        async move { pool.view().await.map(|_| ()) }
    });
    let (socket, _) = listener.accept().await.unwrap();
    let mut socket = tokio_tungstenite::accept_async(socket).await.unwrap();
    let subscription = socket.next().await.unwrap().unwrap().into_text().unwrap();
    assert!(subscription.contains("newHeads"), "{subscription}");
    let question = socket.next().await.unwrap().unwrap().into_text().unwrap();
    assert!(question.contains("eth_chainId"), "{question}");
    view.abort();
    let _ = view.await;
    drop(pool);
    let closed = async { while let Some(Ok(_)) = socket.next().await {} };
    tokio::time::timeout(testkit::DEADLINE, closed).await.expect("the connection to be closed");
}
