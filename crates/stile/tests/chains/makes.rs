//! The node programs, each with the whole story.

use testkit::NodeKind;

use crate::page::Row;
use crate::stage::Stage;
use crate::{Untold, story, tell_all};

/// Transfers from one signer, and from three.
const TRANSFERS: u64 = 200;

const CHAINS: [(&str, NodeKind); 8] = [
    ("anvil as Berlin (no base fee)", NodeKind::Anvil("berlin")),
    ("anvil as Shanghai", NodeKind::Anvil("shanghai")),
    ("anvil as Prague", NodeKind::Anvil("prague")),
    ("anvil as a chain of the OP stack", NodeKind::AnvilOptimism),
    ("Hardhat, mining on demand", NodeKind::HardhatOnDemand),
    ("Hardhat, mining by time", NodeKind::HardhatByTime),
    ("ganache", NodeKind::Ganache),
    ("geth of 2019", NodeKind::Geth),
];

/// Fails if any of these chains has a transaction twice, a gap, or one that does not end.
#[tokio::test]
async fn the_same_story_ends_well_on_every_make_of_chain() {
    let rows = CHAINS.map(|(name, kind)| Untold { name, tell: Box::pin(tell(name, kind)) });
    tell_all("makes", rows.into()).await;
}

async fn tell(name: &'static str, kind: NodeKind) -> Row {
    let mut row = Row::new(name);
    let mut stage = Stage::start(kind, |_| {}, |options| options).await;
    row.add("version", short(&stage.node.version().await));
    story::check(&stage, name).await;
    story::one_signer(&mut stage, &mut row, TRANSFERS).await;
    story::three_signers(&mut stage, &mut row, TRANSFERS).await;
    // geth took no transaction above 32 KiB then.
    let large = if kind == NodeKind::Geth { 30_000 } else { 60_000 };
    story::contracts(&mut stage, &mut row, large).await;
    story::stile_is_killed(&mut stage, &mut row).await;
    story::chain_is_killed(&mut stage, &mut row).await;
    // It executes the same bytes twice where they come twice at the same moment, as they may after
    // that. No other program does, and no chain could.
    match kind {
        NodeKind::Ganache => row.add("chain emptied", "not run: see below"),
        _ => story::chain_is_emptied(stage, &mut row).await,
    }
    row
}

/// A version without what says on which machine it was built.
fn short(version: &str) -> String {
    version.split('/').take(2).collect::<Vec<_>>().join(" ")
}
