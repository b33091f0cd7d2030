//! A chain, a signer that it knows, and nodes that send.

use std::sync::Arc;
use std::time::Duration;

use stile_chain::{BlockTag, Chains, LocalSigner, PoolOptions, TxSigner};
use stile_domain::{Address, ChainId, Finality, Lane, Payload, TxId, TxState, U256};
use stile_engine::{Accepted, ChainQuery, Managed, Node, Settings, Signers, TxRequest, TxSettings};
use stile_store::{Store, Tx, TxEvent};
use testkit::{Anvil, AnvilOptions, eventually, eventually_within};

use crate::common::Bench;

/// How long something may take that several timers of a node are part of, on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Keys that every development chain knows.
pub(crate) const KEYS: [&str; 3] = [
    "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
    "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
    "0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a",
];

/// A chain that makes blocks when told to, or for each transaction.
pub(crate) async fn chain(mines_at_once: bool) -> Anvil {
    Anvil::start(AnvilOptions { no_mining: !mines_at_once, ..AnvilOptions::default() }).await
}

pub(crate) fn signer(n: usize) -> LocalSigner {
    LocalSigner::from_key(KEYS[n]).unwrap()
}

pub(crate) fn lane(n: usize) -> Lane {
    Lane::new(ChainId::new(31337).unwrap(), signer(n).address())
}

/// Settings of a node that sends, with short timers.
pub(crate) fn settings(bench: &Bench, node: &str) -> Settings {
    Settings {
        chain_query: ChainQuery::Enabled(BlockTag::Latest),
        tx: TxSettings { finality: Finality::Confirmations(1), ..TxSettings::default() },
        ..bench.settings(node)
    }
}

pub(crate) async fn start(bench: &Bench, settings: Settings, endpoints: &[&str]) -> Node {
    start_on(bench.database.open(), settings, endpoints).await
}

/// A node that sees the store through somebody else's eyes.
pub(crate) async fn start_on(
    store: Arc<dyn Store>,
    settings: Settings,
    endpoints: &[&str],
) -> Node {
    start_with(store, settings, endpoints, PoolOptions::default().answer_timeout).await
}

/// A node that waits for its endpoints for as long as this.
pub(crate) async fn start_with(
    store: Arc<dyn Store>,
    settings: Settings,
    endpoints: &[&str],
    answer_timeout: Duration,
) -> Node {
    let urls = endpoints.iter().map(|url| (*url).to_owned()).collect();
    let poll_interval = Duration::from_millis(50);
    let options = PoolOptions { poll_interval, answer_timeout, ..PoolOptions::default() };
    let chains = Arc::new(Chains::new([(ChainId::new(31337).unwrap(), urls)], options).unwrap());
    let mut signers = Signers::new();
    for n in 0..KEYS.len() {
        signers.add(lane(n).chain, Arc::new(signer(n))).unwrap();
    }
    let managed = Managed { chains: Arc::clone(&chains), signers, ..Managed::default() };
    Node::start_managed(settings, store, chains, managed).await.unwrap()
}

/// One wei to nobody in particular.
pub(crate) fn transfer(n: usize, request_id: &str) -> TxRequest {
    TxRequest {
        tenant: String::new(),
        lane: lane(n),
        request_id: Some(request_id.to_owned()),
        payload: Payload {
            to: Some(Address::repeat_byte(0x77)),
            value: U256::from(1),
            gas_limit: Some(21_000),
            ..Payload::default()
        },
        finality: None,
    }
}

pub(crate) async fn send(node: &Node, request: TxRequest) -> Tx {
    let Accepted { tx, new } = node.transactions().send(request).await.unwrap();
    assert!(new);
    tx
}

pub(crate) async fn get(node: &Node, id: TxId) -> Tx {
    node.transactions().get(id).await.unwrap().unwrap()
}

/// Waits until a transaction is in a state.
pub(crate) async fn until(node: &Node, id: TxId, state: TxState) -> Tx {
    let what = format!("{id} to be {state}");
    let wait = Duration::from_secs(45);
    eventually_within(wait, &what, async || {
        let tx = get(node, id).await;
        (tx.standing.state == state).then_some(tx)
    })
    .await
}

/// Waits until a transaction is in a block. It may be confirmed by then.
pub(crate) async fn mined(node: &Node, id: TxId) -> Tx {
    eventually(&format!("{id} to be mined"), async || {
        let tx = get(node, id).await;
        tx.receipt.is_some().then_some(tx)
    })
    .await
}

pub(crate) async fn history(node: &Node, id: TxId) -> Vec<TxEvent> {
    let events = node.transactions().history(id).await.unwrap();
    let seqs: Vec<u32> = events.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=events.len() as u32).collect::<Vec<_>>(), "numbered without gaps");
    events
}

pub(crate) fn kinds(events: &[TxEvent]) -> Vec<&'static str> {
    events.iter().map(|event| event.kind.name()).collect()
}
