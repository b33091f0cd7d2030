//! What is asked around a transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use stile_chain::{
    At, BlockTag, ChainError, Chains, EstimateError, NonceSource, NotAsked, PoolOptions,
    ReceiptAnswer, SendClass, Sighting, TxSigner,
};
use stile_domain::{Address, B256, Bytes, ChainId, FeeQuote, Lane, Payload, U256};
use testkit::{Anvil, AnvilOptions};

use crate::support::*;

/// Deploys nothing: its constructor reverts with what follows its twelve bytes.
fn reverting(with: &[u8]) -> Payload {
    let length = u8::try_from(with.len()).unwrap();
    let mut code = vec![0x60, length, 0x60, 12, 0x60, 0, 0x39, 0x60, length, 0x60, 0, 0xfd];
    code.extend_from_slice(with);
    Payload { data: code.into(), ..Payload::default() }
}

/// `Error("no luck")`.
fn no_luck() -> Vec<u8> {
    let mut data = vec![0x08, 0xc3, 0x79, 0xa0];
    data.extend(U256::from(32).to_be_bytes::<32>());
    data.extend(U256::from(7).to_be_bytes::<32>());
    data.extend_from_slice(b"no luck");
    data.resize(100, 0);
    data
}

#[tokio::test]
async fn gas_is_estimated_and_reverts_are_explained() {
    let anvil = anvil().await;
    let pool = pool([anvil.url()]);
    let from = signer(KEYS[0]).address();
    let to = Some(Address::repeat_byte(0x22));
    let transfer = Payload { to, value: U256::from(1), ..Payload::default() };
    assert_eq!(pool.estimate_gas(from, &transfer).await, Ok(21_000));
    let error = pool.estimate_gas(from, &reverting(&no_luck())).await.unwrap_err();
    let EstimateError::Reverted { reason, data } = &error else { panic!("{error:?}") };
    assert_eq!(reason, "no luck");
    assert_eq!(data.as_ref(), Some(&Bytes::from(no_luck())));
    let silent = pool.estimate_gas(from, &reverting(&[])).await.unwrap_err();
    assert!(matches!(silent, EstimateError::Reverted { .. }), "{silent:?}");
    // With data, since anvil does not look at the balance behind a plain transfer.
    let with_data = Payload { data: Bytes::from_static(b"x"), ..transfer };
    let error = pool.estimate_gas(signer(POOR_KEY).address(), &with_data).await.unwrap_err();
    assert!(matches!(error, EstimateError::Refused(_)), "{error:?}");
}

#[tokio::test]
async fn without_an_endpoint_there_is_no_estimate_and_no_verdict() {
    let pool = pool(["http://127.0.0.1:1"]);
    let error = pool.estimate_gas(Address::ZERO, &Payload::default()).await.unwrap_err();
    assert!(matches!(error, EstimateError::Unavailable(_)), "{error:?}");
    assert!(pool.fee_quote().await.is_err());
    assert!(pool.view().await.is_err());
    assert!(pool.receipts(&[B256::ZERO]).await.is_err());
    assert!(pool.known(&[B256::ZERO]).await.is_err());
    assert!(pool.counts(&[Address::ZERO], At::Latest).await.is_err());
    assert_eq!(pool.counts(&[], At::Latest).await, Ok(Vec::new()), "about nobody, nobody is asked");
    assert!(pool.balances(&[Address::ZERO]).await.is_err());
    let silent = stile_domain::Votes { silent: 1, ..Default::default() };
    assert_eq!(pool.votes(1, B256::ZERO).await, silent);
    let answers = pool.send_raw(&[Bytes::from_static(b"x")]).await;
    assert_eq!(answers[0].verdict, SendClass::Transient);
    assert_eq!(answers[0].said[0].endpoint, "127.0.0.1:1");
}

#[tokio::test]
async fn fees_are_quoted_with_and_without_a_base_fee() {
    let anvil = anvil().await;
    let pool_of_now = pool([anvil.url()]);
    let FeeQuote::Market { base_fee, priority_fee } = pool_of_now.fee_quote().await.unwrap() else {
        panic!("anvil has a base fee");
    };
    assert!(base_fee > 0 && priority_fee > 0, "{base_fee} {priority_fee}");
    // What is quoted is what the next block asks for.
    pool_of_now.send_raw(&[signed(0).raw]).await;
    let block = anvil.rpc("eth_getBlockByNumber", json!(["latest", false])).await;
    assert_eq!(block["baseFeePerGas"], json!(format!("{base_fee:#x}")));
    let FeeQuote::Market { priority_fee, .. } = pool_of_now.fee_quote().await.unwrap() else {
        panic!("anvil has a base fee");
    };
    assert_eq!(priority_fee, 1_000_000_000, "what the only transaction paid");
    let options =
        AnvilOptions { arguments: vec!["--hardfork=berlin".to_owned()], ..Default::default() };
    let old = Anvil::start(options).await;
    let quote = pool([old.url()]).fee_quote().await.unwrap();
    assert!(matches!(quote, FeeQuote::Legacy { gas_price } if gas_price > 0), "{quote:?}");
}

/// What is asked for is what the configuration says.
#[tokio::test]
async fn fees_are_quoted_at_the_percentile_that_is_configured() {
    let node = Fake::start(|method, params| match method {
        "eth_feeHistory" if *params == json!(["0x9", "latest", [90.0]]) => Ok(json!({
            "oldestBlock": "0x1",
            "baseFeePerGas": ["0x7", "0x8"],
            "gasUsedRatio": [0.5],
            "reward": [["0x5"]],
        })),
        _ => look(method, 5).ok_or_else(not_found),
    })
    .await;
    let options = PoolOptions { fee_percentile: 90.0, fee_blocks: 9, ..PoolOptions::default() };
    let quote = pool_with([node.url()], options).fee_quote().await;
    assert_eq!(quote, Ok(FeeQuote::Market { base_fee: 8, priority_fee: 5 }));
}

#[tokio::test]
async fn transactions_are_counted_mined_and_pending() {
    let anvil = quiet_anvil().await;
    let chains =
        Chains::new([(chain(), vec![anvil.url().to_owned()])], PoolOptions::default()).unwrap();
    let lane = Lane::new(chain(), signer(KEYS[0]).address());
    chains.get(chain()).unwrap().send_raw(&[signed(0).raw]).await;
    assert_eq!(chains.transaction_count(lane, BlockTag::Latest).await, Ok(0));
    assert_eq!(chains.transaction_count(lane, BlockTag::Pending).await, Ok(1));
    anvil.mine(1).await;
    assert_eq!(chains.transaction_count(lane, BlockTag::Latest).await, Ok(1));
    let unknown = ChainId::new(5).unwrap();
    let nobody = chains.transaction_count(Lane::new(unknown, Address::ZERO), BlockTag::Latest);
    assert_eq!(nobody.await, Err(ChainError::NoEndpoint(unknown)));
}

#[tokio::test]
async fn receipts_are_found_by_hash_and_in_blocks() {
    let anvil = quiet_anvil().await;
    let pool = pool([anvil.url()]);
    let sent: Vec<_> = (0..5).map(signed).collect();
    let raw: Vec<Bytes> = sent.iter().map(|tx| tx.raw.clone()).collect();
    let hashes: Vec<B256> = sent.iter().map(|tx| tx.hash).collect();
    pool.send_raw(&raw).await;
    let head = anvil.height().await;
    assert_eq!(
        pool.receipts(&hashes).await.unwrap(),
        vec![ReceiptAnswer::NotFound { head }; 5],
        "nothing is mined yet"
    );
    anvil.mine(1).await;
    let answers = pool.receipts(&[hashes[4], B256::ZERO, hashes[0]]).await.unwrap();
    let ReceiptAnswer::Found(last) = &answers[0] else { panic!("{answers:?}") };
    assert_eq!(last.status, Some(true));
    assert_eq!((last.tx_hash, last.transaction_index, last.gas_used), (hashes[4], 4, 21_000));
    assert_eq!(answers[1], ReceiptAnswer::NotFound { head: head + 1 });
    assert!(matches!(&answers[2], ReceiptAnswer::Found(first) if first.tx_hash == hashes[0]));

    let view = pool.view().await.unwrap();
    let from = signer(KEYS[0]).address();
    let seen = |(nonce, hash): (u64, &B256)| Sighting { hash: *hash, from, nonce };
    let sightings: Vec<_> = (0..).zip(&hashes).map(seen).collect();
    let newest = view.block(view.head().hash).await.unwrap().unwrap();
    assert_eq!((&newest.header, newest.transactions), (view.head(), sightings));
    let found = view.receipts_in(view.head(), &hashes[1..3]).await.unwrap();
    assert_eq!(found.iter().map(|r| r.tx_hash).collect::<Vec<_>>(), hashes[1..3]);
    let one = view.receipts_in(view.head(), &hashes[..1]).await.unwrap();
    assert_eq!(one[0].tx_hash, hashes[0]);
    let below = view.block_at(head).await.unwrap().unwrap();
    let elsewhere = view.receipts_in(&below.header, &hashes[..1]).await.unwrap();
    assert!(elsewhere.is_empty(), "a receipt of another block is not one of this block");
    let elsewhere = view.receipts_in(&below.header, &hashes).await.unwrap();
    assert!(elsewhere.is_empty());
}

#[tokio::test]
async fn transactions_in_a_pool_or_on_the_chain_are_known() {
    let (first, second) = (quiet_anvil().await, quiet_anvil().await);
    let (in_first, in_second) = (signed(0), signed(1));
    pool([first.url()]).send_raw(&[in_first.raw]).await;
    pool([second.url()]).send_raw(&[in_second.raw]).await;
    second.mine(1).await;
    let both = pool([first.url(), second.url(), "http://127.0.0.1:1"]);
    let known = both.known(&[in_first.hash, B256::ZERO, in_second.hash]).await.unwrap();
    assert_eq!(known, [true, false, true]);
}

#[tokio::test]
async fn blocks_are_had_by_height_and_by_hash() {
    let anvil = anvil().await;
    anvil.mine(70).await;
    let pool = pool([anvil.url()]);
    let view = pool.view().await.unwrap();
    assert_eq!(view.head().height, 70);
    let blocks = view.blocks(&[69, 70, 71, 0]).await.unwrap();
    let heights: Vec<_> = blocks.iter().map(|b| b.as_ref().map(|b| b.header.height)).collect();
    assert_eq!(heights, [Some(69), Some(70), None, Some(0)]);
    let newest = blocks[1].as_ref().unwrap();
    assert_eq!(&newest.header, view.head());
    assert!(newest.base_fee.is_some());
    let headers = view.headers(&[69, 70, 71, 0]).await.unwrap();
    assert_eq!(headers, blocks.iter().map(|b| b.as_ref().map(|b| b.header)).collect::<Vec<_>>());
    let parent = view.block(view.head().parent).await.unwrap();
    assert_eq!(parent, blocks[0]);
    assert_eq!(view.block(B256::ZERO).await, Ok(None));
    let nothing = stile_domain::HeaderWindow::default();
    let heads = pool.heads(70, &nothing, true).await;
    assert_eq!(heads.latest, 70);
    assert!(heads.safe.is_some_and(|safe| safe < 70), "{heads:?}");
    assert!(heads.finalized.is_some_and(|finalized| finalized < 70), "{heads:?}");
    let heads = pool.heads(70, &nothing, false).await;
    assert_eq!((heads.safe, heads.finalized), (None, None));
}

#[tokio::test]
async fn a_node_without_newer_methods_is_asked_in_older_ways() {
    let receipt = |hash: &Value| {
        json!({
            "transactionHash": hash,
            "blockNumber": "0x5",
            "blockHash": block(5)["hash"],
            "transactionIndex": "0x0",
            "status": "0x1",
            "gasUsed": "0x5208",
            "effectiveGasPrice": "0x1",
        })
    };
    let node = Fake::start(move |method, params| match method {
        "eth_getTransactionReceipt" => Ok(receipt(&params[0])),
        "eth_getBlockByNumber" if params[0] == "safe" || params[0] == "finalized" => {
            Err(json!({ "code": -32000, "message": "finalized block not found" }))
        }
        _ => look(method, 5).ok_or_else(not_found),
    })
    .await;
    let pool = pool([node.url()]);
    let view = pool.view().await.unwrap();
    let wanted = [B256::repeat_byte(1), B256::repeat_byte(2)];
    for _ in 0..2 {
        let receipts = view.receipts_in(view.head(), &wanted).await.unwrap();
        assert_eq!(receipts.iter().map(|r| r.tx_hash).collect::<Vec<_>>(), wanted);
    }
    let heads = pool.heads(5, &stile_domain::HeaderWindow::default(), true).await;
    assert_eq!((heads.latest, heads.safe, heads.finalized), (5, None, None));
}

/// A healthy node that says this of every transaction's gas.
async fn estimates(answer: Result<Value, Value>) -> Fake {
    Fake::start(move |method, _| match method {
        "eth_estimateGas" => answer.clone(),
        _ => look(method, 5).ok_or_else(not_found),
    })
    .await
}

fn gas(amount: u64) -> Result<Value, Value> {
    Ok(json!(format!("{amount:#x}")))
}

fn says(code: i64, message: &str) -> Result<Value, Value> {
    Err(json!({ "code": code, "message": message }))
}

/// Whatever one of three says about a transaction's gas, and wherever it stands, it is what the two
/// others say. Of two, what cannot be is asked of the other.
#[tokio::test]
async fn hole_23_one_liar_of_three_does_not_say_what_a_transaction_needs() {
    let payload = Payload { to: Some(Address::repeat_byte(0x22)), ..Payload::default() };
    let lies = [
        gas(1 << 62),
        gas(30_000_001),
        gas(29_000_000),
        gas(21_000),
        says(3, "execution reverted"),
        says(-32000, "insufficient funds for transfer"),
        says(-32000, "the oracle is out to lunch"),
        says(-32005, "slow down"),
    ];
    let honest = [estimates(gas(50_000)).await, estimates(gas(51_000)).await];
    for lie in lies {
        let liar = estimates(lie.clone()).await;
        let (lies, first, second) = (liar.url(), honest[0].url(), honest[1].url());
        for urls in [[lies, first, second], [first, lies, second], [first, second, lies]] {
            let estimate = pool(urls).estimate_gas(Address::ZERO, &payload).await.unwrap();
            assert!((50_000..=51_000).contains(&estimate), "{lie:?}: {estimate}");
        }
    }
    for lie in [gas(1 << 62), gas(30_000_001), gas(20_000), says(3, "execution reverted")] {
        let liar = estimates(lie.clone()).await;
        let both = pool([liar.url(), honest[0].url()]);
        assert_eq!(both.estimate_gas(Address::ZERO, &payload).await, Ok(50_000), "{lie:?}");
    }
    // What two of three say is what holds.
    let noes = [
        estimates(says(3, "execution reverted")).await,
        estimates(says(-32000, "execution reverted")).await,
    ];
    let against = pool([honest[0].url(), noes[0].url(), noes[1].url()]);
    let error = against.estimate_gas(Address::ZERO, &payload).await.unwrap_err();
    assert!(matches!(error, EstimateError::Reverted { .. }), "{error:?}");
}

/// Words that nobody knows are no verdict where there is another endpoint, whatever that one does.
#[tokio::test]
async fn hole_21_strange_words_of_one_endpoint_of_several_refuse_nothing() {
    let payload = Payload { to: Some(Address::repeat_byte(0x22)), ..Payload::default() };
    let strange = || estimates(says(-32000, "the oracle is out to lunch"));
    let (bad, worse) = (strange().await, strange().await);
    let away = "http://127.0.0.1:1";
    for urls in [vec![bad.url(), away], vec![bad.url(), worse.url()], vec![bad.url(), away, away]] {
        let error = pool(urls.clone()).estimate_gas(Address::ZERO, &payload).await.unwrap_err();
        let EstimateError::Unavailable(why) = error else { panic!("{urls:?}: {error:?}") };
        assert!(why.to_string().contains("out to lunch"), "{why}");
    }
    let alone = pool([bad.url()]).estimate_gas(Address::ZERO, &payload).await.unwrap_err();
    assert!(matches!(alone, EstimateError::Refused(_)), "its word is all there is: {alone:?}");
}

/// A node that says after so many questions when to come back, in an hour. Counts what it is asked.
async fn tires_after(questions: usize) -> (Fake, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let node = Fake::start(move |method, _| {
        if counted.fetch_add(1, Ordering::SeqCst) < questions {
            return look(method, 5).ok_or_else(not_found);
        }
        let data = json!({ "retry_after": 3600 });
        Err(json!({ "code": -32005, "message": "slow down", "data": data }))
    })
    .await;
    (node, asked)
}

/// Whoever says when to come back is asked nothing until then, and the others serve. Where there is
/// no other one, callers are told at once.
#[tokio::test]
async fn hole_25_an_endpoint_that_wants_to_be_left_alone_is_asked_nothing() {
    let (tired, asked) = tires_after(2).await;
    let healthy = Fake::start(|method, _| match method {
        "eth_getTransactionCount" => Ok(json!("0x7")),
        _ => look(method, 5).ok_or_else(not_found),
    })
    .await;
    let both = pool([tired.url(), healthy.url()]);
    assert_eq!(both.view().await.unwrap().endpoint(), shown(tired.url()), "one look at it");
    for _ in 0..20 {
        let count = both.transaction_count(Address::ZERO, BlockTag::Pending).await.unwrap();
        assert_eq!(count, 7);
        assert_eq!(both.view().await.unwrap().endpoint(), shown(healthy.url()));
    }
    assert_eq!(asked.load(Ordering::SeqCst), 3, "once after it was tired");
    let status = &both.endpoints()[0];
    let words = status.why.as_deref().unwrap();
    assert!(words.contains("left alone until 2") && words.contains("Retry-After"), "{words}");
    assert!(status.rests.is_some_and(|left| left > Duration::from_secs(3000)), "{status:?}");
    // It is not sent to either, and does not count as having refused.
    let answer = both.send_to(0, &[signed(0).raw]).await.unwrap_err();
    assert!(matches!(answer, NotAsked::Paused(_)), "{answer:?}");
    let (tired, asked) = tires_after(0).await;
    let alone = pool([tired.url()]);
    assert!(alone.view().await.is_err());
    let before = asked.load(Ordering::SeqCst);
    for _ in 0..20 {
        let error = alone.view().await.unwrap_err().to_string();
        assert!(error.contains("left alone until 2"), "{error}");
        assert!(alone.estimate_gas(Address::ZERO, &Payload::default()).await.is_err());
    }
    assert_eq!(asked.load(Ordering::SeqCst), before);
}
