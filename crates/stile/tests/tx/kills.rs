//! Nodes killed twenty times under load.
//!
//! Fails if a commit's answer is believed before the commit, if bytes are sent before they are
//! stored, if a start does not reload and re-send what was bound, or if a request id does not find
//! the transaction of the first call.

use std::collections::BTreeSet;
use std::time::Duration;

use stile::B256;
use testkit::{Anvil, AnvilOptions, RpcProxy};

use crate::common::{Database, NodeOptions, StileProcess};
use crate::support::{Backend, Load, Random, SIGNERS};

const KILLS: usize = 20;

/// The longest that a node lives.
const LIFE_MS: u64 = 700;

/// Kills one node after the other under load, at random moments; then nothing may be missing.
async fn killed(anvil: &Anvil, options: &[NodeOptions], mut nodes: Vec<StileProcess>) -> Load {
    let mut random = Random::new();
    let load = Load::new(anvil, &nodes.iter().collect::<Vec<_>>()).await;
    let kills = async {
        for _ in 0..KILLS {
            // A random moment is the point here; nothing is expected of it.
            tokio::time::sleep(Duration::from_millis(random.below(LIFE_MS))).await;
            let victim = random.below(nodes.len() as u64) as usize;
            nodes[victim].kill().await;
            nodes[victim] = options[victim].start().await;
            load.moved(victim, &nodes[victim]);
        }
    };
    load.during(kills).await;
    load.check(anvil, &nodes[0]).await;
    load
}

async fn every_second() -> Anvil {
    Anvil::start(AnvilOptions { block_time_seconds: Some(1), ..Default::default() }).await
}

async fn what_was_answered_is_mined_once_however_often_the_node_is_killed(backend: Backend) {
    let anvil = every_second().await;
    let options = backend.node(anvil.url()).development_keys(SIGNERS);
    let nodes = vec![options.start().await];
    killed(&anvil, &[options], nodes).await;
}

on_both_stores!(what_was_answered_is_mined_once_however_often_the_node_is_killed);

/// Two nodes that take the lanes from each other. What they send is what one of them has stored:
/// there is one hash for each nonce on the wire, whoever sent it.
#[tokio::test]
async fn what_was_answered_is_mined_once_whichever_of_two_nodes_is_killed() {
    let (database, anvil) = tokio::join!(Database::new(), every_second());
    let proxy = RpcProxy::start(anvil.url()).await;
    let options = ["a", "b"].map(|name| {
        NodeOptions::postgres(name, &database.url, &[])
            .endpoint(&proxy.url())
            .development_keys(SIGNERS)
            .lease("2s", "500ms")
            .set("cluster.not_holder", "accept")
            .set_literal("confirmations.required", "1")
    });
    let nodes = vec![options[0].start().await, options[1].start().await];
    let load = killed(&anvil, &options, nodes).await;
    let on_wire: BTreeSet<B256> = proxy.sent_raw().iter().map(|sent| sent.hash).collect();
    assert_eq!(on_wire.len(), load.taken());
}
