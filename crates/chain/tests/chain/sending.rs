//! Sending, and what anvil really says to it.

use std::time::Duration;

use serde_json::json;
use stile_chain::{NotAsked, PoolOptions, SendAnswer, SendClass, UnsignedTx};
use stile_domain::{Bytes, Fees, U256};

use crate::support::*;

fn verdicts(answers: &[SendAnswer]) -> Vec<SendClass> {
    answers.iter().map(|answer| answer.verdict).collect()
}

#[tokio::test]
async fn a_batch_is_taken_in_order_and_known_the_second_time() {
    let anvil = quiet_anvil().await;
    let options = PoolOptions { batch_limit: 7, ..PoolOptions::default() };
    let pool = pool_with([anvil.url()], options);
    let sent: Vec<_> = (0..50).map(signed).collect();
    let raw: Vec<Bytes> = sent.iter().map(|tx| tx.raw.clone()).collect();
    let answers = pool.send_raw(&raw).await;
    assert_eq!(verdicts(&answers), [SendClass::Accepted; 50], "{:?}", answers[0]);
    assert_eq!(answers[49].said[0].endpoint, shown(anvil.url()));
    let again = pool.send_raw(&raw).await;
    assert_eq!(verdicts(&again), [SendClass::Known; 50], "{:?}", again[0]);
    anvil.mine(1).await;
    let view = pool.view().await.unwrap();
    let newest = view.block(view.head().hash).await.unwrap().unwrap();
    let seen: Vec<_> = newest.transactions.iter().map(|seen| seen.hash).collect();
    assert_eq!(seen, sent.iter().map(|tx| tx.hash).collect::<Vec<_>>());
    assert!(pool.send_raw(&[]).await.is_empty());
}

#[tokio::test]
async fn anvils_own_words_are_understood() {
    let anvil = quiet_anvil().await;
    let pool = pool([anvil.url()]);
    let class = async |key, tx: &UnsignedTx| {
        let raw = signer(key).sign_now(tx).unwrap().raw;
        let answer = pool.send_raw(&[raw]).await.remove(0);
        (answer.verdict, answer.said[0].text.clone())
    };
    let expect = async |key, tx: UnsignedTx, expected| {
        let (verdict, text) = class(key, &tx).await;
        assert_eq!(verdict, expected, "{text}");
    };
    let fees = |max_fee_per_gas| Fees::Market { max_fee_per_gas, max_priority_fee_per_gas: 1 };
    expect(KEYS[0], transfer(0), SendClass::Accepted).await;
    let another = UnsignedTx { value: U256::from(2), ..transfer(0) };
    expect(KEYS[0], another, SendClass::ReplacementUnderpriced).await;
    expect(POOR_KEY, transfer(0), SendClass::InsufficientFunds).await;
    expect(KEYS[1], UnsignedTx { fees: fees(1), ..transfer(0) }, SendClass::Underpriced).await;
    expect(KEYS[1], UnsignedTx { gas_limit: 20_000, ..transfer(0) }, SendClass::Rejected).await;
    let elsewhere = UnsignedTx { chain: stile_domain::ChainId::new(5).unwrap(), ..transfer(0) };
    expect(KEYS[1], elsewhere, SendClass::Rejected).await;
    anvil.mine(1).await;
    let late = UnsignedTx { value: U256::from(3), ..transfer(0) };
    expect(KEYS[0], late, SendClass::NonceTooLow).await;
}

/// A transaction that has been mined is as good as known: its nonce is used, and by itself.
#[tokio::test]
async fn a_mined_transaction_sent_again_is_nobody_elses() {
    let anvil = anvil().await;
    let pool = pool([anvil.url()]);
    let tx = signed(0);
    pool.send_raw(std::slice::from_ref(&tx.raw)).await;
    let again = pool.send_raw(&[tx.raw]).await.remove(0);
    assert!(matches!(again.verdict, SendClass::NonceTooLow | SendClass::Known), "{again:?}");
    assert_eq!(pool.known(&[tx.hash]).await, Ok(vec![true]));
}

#[tokio::test]
async fn every_endpoint_gets_it_and_one_is_enough() {
    let (first, second) = (quiet_anvil().await, quiet_anvil().await);
    let pool = pool([first.url(), second.url(), "http://127.0.0.1:1"]);
    let tx = signed(0);
    let answer = pool.send_raw(&[tx.raw]).await.remove(0);
    assert_eq!(answer.verdict, SendClass::Accepted);
    let said: Vec<_> = answer.said.iter().map(|said| said.endpoint.clone()).collect();
    assert_eq!(said, [shown(first.url()), shown(second.url())], "the dead one is not asked");
    let value = serde_json::to_value(&answer.said[0]).unwrap();
    let expected =
        json!({ "endpoint": shown(first.url()), "class": "accepted", "text": "accepted" });
    assert_eq!(value, expected);
}

#[tokio::test]
async fn an_endpoint_that_takes_no_batches_gets_one_after_another() {
    let node = Fake::raw(|question| match question["method"].as_str() {
        // Only single questions have a method.
        None => r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no batches"}}"#
            .to_owned(),
        Some("eth_sendRawTransaction") => {
            let raw: Bytes = question["params"][0].as_str().unwrap().parse().unwrap();
            let hash = alloy::primitives::keccak256(&raw);
            json!({ "jsonrpc": "2.0", "id": question["id"], "result": hash }).to_string()
        }
        Some(method) => {
            json!({ "jsonrpc": "2.0", "id": question["id"], "result": look(method, 5) }).to_string()
        }
    })
    .await;
    let pool = pool([node.url()]);
    let raw: Vec<Bytes> = (0..3).map(|nonce| signed(nonce).raw).collect();
    assert_eq!(verdicts(&pool.send_raw(&raw).await), [SendClass::Accepted; 3]);
}

/// Whoever drives a lane does so on a runtime with several threads.
#[test]
fn everything_asked_can_be_asked_from_any_thread() {
    fn movable(_: impl Send) {}
    let pool = pool(["http://127.0.0.1:1"]);
    let payload = stile_domain::Payload::default();
    let hash = stile_domain::B256::ZERO;
    movable(pool.view());
    movable(pool.votes(1, hash));
    movable(pool.next_head());
    movable(pool.known(&[]));
    movable(pool.receipts(&[]));
    movable(pool.send_raw(&[]));
    movable(pool.fee_quote());
    movable(pool.estimate_gas(stile_domain::Address::ZERO, &payload));
    movable(async {
        let view = pool.view().await?;
        pool.heads(1, &stile_domain::HeaderWindow::default(), true).await;
        view.block(hash).await?;
        view.blocks(&[1]).await?;
        view.receipts_in(view.head(), &[hash]).await
    });
}

const SEND: &str = "eth_sendRawTransaction";

/// Fails if an endpoint that wants a rest is asked again at once, is read from no more, or makes the
/// other one wait.
#[tokio::test]
async fn hole_25_an_endpoint_says_when_it_wants_to_be_asked_again() {
    let anvil = quiet_anvil().await;
    let proxy = testkit::RpcProxy::start(anvil.url()).await;
    proxy.fail_with_status(SEND, 429, Some("1800"));
    let pool = pool([proxy.url(), anvil.url().to_owned()]);
    let tx = signed(0);
    let raw = std::slice::from_ref(&tx.raw);
    let first = pool.send_to(0, raw).await.unwrap().remove(0);
    assert_eq!((first.class, first.answer_lost), (SendClass::Transient, false), "{first:?}");
    match pool.send_to(0, raw).await {
        Err(NotAsked::Paused(left)) => assert!(left > Duration::from_secs(1000), "{left:?}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(proxy.count(SEND), 1);
    let status = pool.endpoints().remove(0);
    assert!(status.usable && status.read_only.is_none(), "{status:?}");
    let other = pool.send_to(1, raw).await.unwrap().remove(0);
    assert_eq!(other.class, SendClass::Accepted, "{other:?}");
    let known = pool.known_by_each(&[tx.hash]).await;
    assert_eq!(known, [Some(vec![true]), Some(vec![true])], "both are read from");
}

/// Fails if an endpoint that takes no transactions is asked for each of them, or is read from no
/// more.
#[tokio::test]
async fn hole_25_an_endpoint_that_takes_none_is_not_asked_again() {
    let anvil = quiet_anvil().await;
    let proxy = testkit::RpcProxy::start(anvil.url()).await;
    proxy.fail_with_status(SEND, 403, None);
    let pool = pool([proxy.url(), anvil.url().to_owned()]);
    let raw = [signed(0).raw, signed(1).raw];
    let first = pool.send_to(0, &raw).await.unwrap();
    assert!(first.iter().all(|said| said.class == SendClass::ReadOnly), "{first:?}");
    let asked = proxy.count(SEND);
    assert!(matches!(pool.send_to(0, &raw).await, Err(NotAsked::ReadOnly(_))));
    let answers = pool.send_raw(&raw).await;
    assert_eq!(verdicts(&answers), [SendClass::Accepted; 2], "{answers:?}");
    assert_eq!(proxy.count(SEND), asked);
    assert!(pool.takes_none(0) && !pool.takes_none(1) && !pool.is_read_only());
    assert!(pool.endpoints()[0].usable);
}
