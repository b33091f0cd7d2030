//! Stile inside another program: the examples as they are, on a real chain, and what they do not show.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod common;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use stile::{
    Address, ChainId, Finality, Lane, LocalSigner, Outcome, Payload, Stile, StileError, TxError,
    TxId, TxRequest, TxState, U256,
};
use testkit::{Anvil, AnvilOptions, Launch};

use common::Finished;

async fn every_second() -> Anvil {
    Anvil::start(AnvilOptions { block_time_seconds: Some(1), ..Default::default() }).await
}

/// Runs an example to its end. Cargo builds them with the tests, beside the binary.
async fn example(name: &str, arguments: &[&str]) -> Finished {
    let beside = PathBuf::from(env!("CARGO_BIN_EXE_stile"));
    let program = beside.parent().unwrap().join("examples").join(name);
    assert!(program.exists(), "{} is missing: cargo build --examples", program.display());
    Finished::of(&Launch::new(program).args(arguments.iter().copied()).start()).await
}

#[tokio::test]
async fn a_managed_transaction_from_another_program() {
    let anvil = every_second().await;
    let ended = example("embed", &[anvil.url()]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("CONFIRMED with nonce Some(0)"), "{}", ended.stdout);
    let told: String = ended.stdout.split_whitespace().collect();
    assert!(told.contains("status:Some(true,)"), "{}", ended.stdout);
    let mined = anvil.transactions_of(&anvil.accounts().await[0]).await;
    assert_eq!(mined.len(), 1);
    assert_eq!(mined[0].value, U256::from(1_000_000_000));
}

#[tokio::test]
async fn nonces_alone_for_a_program_that_signs_by_itself() {
    let anvil = Anvil::start(AnvilOptions::default()).await;
    let ended = example("nonces", &[anvil.url()]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let mined = anvil.transactions_of(&anvil.accounts().await[1]).await;
    assert_eq!(mined.iter().map(|tx| tx.nonce).collect::<Vec<_>>(), [0, 1]);
    for tx in mined {
        let line = format!("sent {} with nonce {}", tx.hash, tx.nonce);
        assert!(ended.stdout.contains(&line), "{line}:\n{}", ended.stdout);
    }
    let without_a_chain = example("nonces", &[]).await;
    assert_eq!(without_a_chain.code, Some(0), "{}", without_a_chain.stderr);
}

/// A store in a directory that the test has to itself.
fn store(directory: &tempfile::TempDir) -> String {
    format!("sqlite://{}", directory.path().join("stile.db").display())
}

fn one_wei() -> Payload {
    Payload { to: Some(Address::repeat_byte(1)), value: U256::from(1), ..Payload::default() }
}

#[tokio::test]
async fn everything_runs_inside_with_the_http_api() {
    let (anvil, directory) = (every_second().await, tempfile::tempdir().unwrap());
    let bare = Address::repeat_byte(0x42);
    let stile = Stile::builder(store(&directory))
        .chain(31337, anvil.url())
        .key(Anvil::key(0))
        .key(Anvil::key(1))
        .account(bare)
        .confirmations(1)
        .keep_finished(Duration::from_secs(3600))
        .node_id("inside")
        .listen(SocketAddr::from(([127, 0, 0, 1], 0)))
        .start()
        .await
        .unwrap();
    stile.ready().await.unwrap();
    assert_eq!(stile.lanes().len(), 2);
    let request = TxRequest::new(stile.lanes()[0], one_wei())
        .request_id("one")
        .finality(Finality::Confirmations(2));
    let sent = stile.transactions().send(request.clone()).await.unwrap();
    assert!(sent.new);
    let again = stile.transactions().send(request).await.unwrap();
    assert_eq!((again.new, again.tx.id), (false, sent.tx.id));
    let done = stile.wait(sent.tx.id).await.unwrap();
    assert_eq!(done.standing.state, TxState::Confirmed);
    assert_eq!(done.standing.outcome, Some(Outcome::Success));
    assert_eq!(done.receipt.unwrap().status, Some(true));

    let route = stile.router().route(stile.lanes()[0]).await.unwrap();
    assert_eq!(route.holder.map(|place| place.node.0), Some("inside".to_owned()));
    assert_eq!(route.preferred, None, "nobody could follow a lane to a node without a URL");
    let nodes = stile.router().nodes();
    assert_eq!(nodes.iter().map(|live| live.node().0.as_str()).collect::<Vec<_>>(), ["inside"]);

    // The same over HTTP.
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("http://{}", stile.address().unwrap());
    let get = async |path: String| client.get(format!("{url}{path}")).send().await.unwrap();
    let tx: serde_json::Value =
        get(format!("/api/v1/tx/{}", sent.tx.id)).await.json().await.unwrap();
    assert_eq!((&tx["state"], &tx["requestId"]), (&"CONFIRMED".into(), &"one".into()));
    let metrics = get("/metrics".into()).await.text().await.unwrap();
    assert!(metrics.contains("stile_tx_accept_total"), "{metrics}");
    assert_eq!(get(format!("/api/v1/signers/{bare}")).await.status(), 200);

    let missing = stile.wait(TxId(Default::default())).await;
    assert!(matches!(missing, Err(StileError::NoTransaction(_))), "{missing:?}");
    stile.shutdown().await;
    assert!(client.get(format!("{url}/health/live")).send().await.is_err(), "it still listens");
}

#[tokio::test]
async fn hole_41_a_signer_for_one_chain_signs_on_that_one_alone() {
    let (anvil, directory) = (every_second().await, tempfile::tempdir().unwrap());
    let other = Anvil::start(AnvilOptions { chain_id: 5, ..Default::default() }).await;
    let stile = Stile::builder(store(&directory))
        .chain(31337, anvil.url())
        .chain(5, other.url())
        .signer_on(31337, LocalSigner::from_key(Anvil::key(0)).unwrap())
        .confirmations(1)
        .start()
        .await
        .unwrap();
    let [lane] = stile.lanes() else { panic!("{:?}", stile.lanes()) };
    assert_eq!(lane.chain.get(), 31337);
    let there = Lane::new(ChainId::new(5).unwrap(), lane.signer);
    let refused = stile.transactions().send(TxRequest::new(there, one_wei())).await;
    assert!(matches!(refused, Err(TxError::NoKey { lane }) if lane == there), "{refused:?}");
    let sent = stile.transactions().send(TxRequest::new(*lane, one_wei())).await.unwrap();
    assert_eq!(stile.wait(sent.tx.id).await.unwrap().standing.state, TxState::Confirmed);
    stile.shutdown().await;
}

/// What a program left open when it ended is taken up by its next start, under the same name.
#[tokio::test]
async fn a_program_that_starts_again_goes_on() {
    let anvil = Anvil::start(AnvilOptions { no_mining: true, ..Default::default() }).await;
    let directory = tempfile::tempdir().unwrap();
    let start = async || {
        Stile::builder(store(&directory))
            .chain(31337, anvil.url())
            .key(Anvil::key(0))
            .confirmations(1)
            .node_id("program")
            .start()
            .await
            .unwrap()
    };
    let first = start().await;
    let request = TxRequest::new(first.lanes()[0], one_wei()).request_id("one");
    let sent = first.transactions().send(request.clone()).await.unwrap();
    first.shutdown().await;
    let second = start().await;
    let again = second.transactions().send(request).await.unwrap();
    assert_eq!((again.new, again.tx.id), (false, sent.tx.id));
    let waiting = second.wait(sent.tx.id);
    let mining = async {
        loop {
            anvil.mine(1).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::select! {
        done = waiting => assert_eq!(done.unwrap().standing.state, TxState::Confirmed),
        () = mining => {}
        () = tokio::time::sleep(testkit::DEADLINE) => panic!("not confirmed"),
    }
    second.shutdown().await;
}
