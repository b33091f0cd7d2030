//! Commits whose answer never comes.

use testkit::{Anvil, AnvilOptions, eventually};

use crate::common::{Database, NodeOptions};
use crate::support::{Load, SIGNERS};

const LOST: u64 = 20;

/// Twenty times under load, PostgreSQL commits and the node is not told: of an acceptance, of
/// nonces that were bound, of what happened to a transaction.
///
/// Fails if a commit without an answer is taken for one that did not happen, or for one that did,
/// instead of being read back.
#[tokio::test]
async fn hole_15_a_lost_commit_answer_is_read_back() {
    let options = AnvilOptions { block_time_seconds: Some(1), ..Default::default() };
    let (database, anvil) = tokio::join!(Database::new(), Anvil::start(options));
    let (proxy, through) = database.proxied().await;
    let node = NodeOptions::postgres("n", &through, &[])
        .endpoint(anvil.url())
        .development_keys(SIGNERS)
        .set("cluster.not_holder", "accept")
        .set_literal("confirmations.required", "1")
        .start()
        .await;
    let load = Load::new(&anvil, &[&node]).await;
    let losses = async {
        for lost in 0..LOST {
            let taken = load.taken();
            eventually("calls to be taken in between", async || {
                (load.taken() > taken + 5).then_some(())
            })
            .await;
            proxy.drop_next_response_containing(b"COMMIT\0");
            eventually("a commit's answer to be lost", async || {
                (proxy.dropped_responses() > lost).then_some(())
            })
            .await;
        }
    };
    load.during(losses).await;
    load.check(&anvil, &node).await;
}
