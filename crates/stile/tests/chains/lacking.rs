//! What an endpoint may lack, each with a shorter story: a proxy takes it away from a chain that
//! has it.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{NodeKind, Reaction, RpcProxy};

use crate::common::NodeOptions;
use crate::page::Row;
use crate::stage::Stage;
use crate::{Untold, story, tell_all};

const TRANSFERS: u64 = 50;

/// The steps that a row with a part of the story has not.
const NOT_RUN: [&str; 6] = [
    "three signers",
    "creation and call",
    "a call that reverts",
    "large data",
    "out of gas",
    "Stile killed",
];

/// What is taken away, how, and what is set in Stile because of it.
type Lack = (&'static str, fn(&RpcProxy), fn(NodeOptions) -> NodeOptions);

/// Nobody can know then whether a transaction succeeded.
const NO_STATUS: &str = "receipts without `status`: outcome `unknown`";

/// Each step of the story takes minutes there, so it has a part of it.
const SLOW: &str = "answers after 5 s";

const LACKS: [Lack; 9] = [
    (
        SLOW,
        |proxy| proxy.delay_all(Duration::from_secs(5)),
        |options| options.answer_timeout("15s"),
    ),
    (NO_STATUS, no_status, as_it_is),
    ("no tag `pending`", |proxy| no_tags(proxy, &["pending"]), as_it_is),
    ("no tags `safe` and `finalized`", |proxy| no_tags(proxy, &["safe", "finalized"]), as_it_is),
    ("no `eth_getBlockReceipts`", |proxy| no_method(proxy, "eth_getBlockReceipts"), as_it_is),
    ("no `eth_feeHistory`", |proxy| no_method(proxy, "eth_feeHistory"), as_it_is),
    (
        "no batches of more than 10",
        |proxy| {
            no_method(proxy, "eth_getBlockReceipts");
            proxy.longest_batch(10, -32600, "batch too large");
        },
        as_it_is,
    ),
    (
        "no batches",
        |proxy| {
            no_method(proxy, "eth_getBlockReceipts");
            proxy.longest_batch(0, -32600, "batch requests are not supported");
        },
        as_it_is,
    ),
    ("pending transactions hidden", pending_hidden, as_it_is),
];

fn as_it_is(options: NodeOptions) -> NodeOptions {
    options
}

fn no_tags(proxy: &RpcProxy, tags: &'static [&'static str]) {
    proxy.is_like(move |_, params| {
        let params = params.as_array()?;
        let names = |tag: &&str| params.iter().any(|param| param == &json!(tag));
        let tag = tags.iter().find(|tag| names(tag))?;
        Some(Reaction::Error(-32602, format!("unknown block tag {tag}")))
    });
}

fn no_method(proxy: &RpcProxy, method: &str) {
    proxy.fail(method, -32601, &format!("the method {method} does not exist/is not available"));
}

fn no_status(proxy: &RpcProxy) {
    proxy.strip("eth_getBlockReceipts", "status");
    proxy.strip("eth_getTransactionReceipt", "status");
}

fn pending_hidden(proxy: &RpcProxy) {
    proxy.lie("eth_getTransactionByHash", |_, found| {
        found["blockNumber"].is_null().then_some(Value::Null)
    });
}

/// Fails if a transaction does not end, or is on the chain twice, because an endpoint cannot do
/// something.
#[tokio::test]
async fn the_story_ends_well_whatever_an_endpoint_lacks() {
    let rows = LACKS.into_iter().map(|lack| Untold { name: lack.0, tell: Box::pin(tell(lack)) });
    tell_all("lacking", rows.collect()).await;
}

async fn tell((name, switch, configure): Lack) -> Row {
    let mut row = Row::new(name);
    let mut stage = Stage::start(NodeKind::Anvil("prague"), switch, configure).await;
    story::one_signer(&mut stage, &mut row, TRANSFERS).await;
    if name == NO_STATUS {
        story::outcomes_are_unknown(&stage).await;
    }
    if [SLOW, NO_STATUS].contains(&name) {
        NOT_RUN.iter().for_each(|column| row.add(column, "not run"));
        return row;
    }
    story::three_signers(&mut stage, &mut row, TRANSFERS).await;
    story::contracts(&mut stage, &mut row, 30_000).await;
    story::stile_is_killed(&mut stage, &mut row).await;
    row
}
