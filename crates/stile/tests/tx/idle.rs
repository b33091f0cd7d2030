//! A node with nothing to do leaves the store alone.

use testkit::{Anvil, AnvilOptions, eventually};

use crate::common::Database;
use crate::support::{Backend, transfer};

/// The transactions of this database so far, as the server counts them.
async fn commits(database: &Database) -> u64 {
    let sql = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
    database.rows(sql).await[0][0].parse().expect("a number")
}

/// Fails if the task that binds what waits does not stop when nothing does: it then asks
/// thousands of times a second. An idle node asks for what waits twice a second, renews its
/// lease, and writes down each block.
#[tokio::test]
async fn a_lane_on_which_nothing_waits_is_not_looked_at_all_the_time() {
    const BLOCKS: u64 = 5;
    const PER_BLOCK: u64 = 100;
    let backend = Backend::postgres().await;
    let Backend::Postgres(database) = &backend else { unreachable!() };
    let options = AnvilOptions { block_time_seconds: Some(1), ..Default::default() };
    let anvil = Anvil::start(options).await;
    let signer = anvil.accounts().await.remove(0);
    let node = backend.node(anvil.url()).development_keys(1).start().await;
    let bodies: Vec<_> = (1..=50).map(|wei| transfer(&signer, wei)).collect();
    futures::future::join_all(bodies[..25].iter().map(|body| node.send_new(body))).await;
    node.send_all(&bodies[25..]).await;
    node.all_confirmed(&signer, bodies.len()).await;

    let height = anvil.height().await;
    let reaches = async |height| {
        eventually("more blocks", async || (anvil.height().await >= height).then_some(())).await;
    };
    // Sessions report what they did with some delay.
    reaches(height + 2).await;
    let before = commits(database).await;
    reaches(height + 2 + BLOCKS).await;
    let during = commits(database).await - before;
    assert!(during < BLOCKS * PER_BLOCK, "{during} transactions in {BLOCKS} blocks");
}
