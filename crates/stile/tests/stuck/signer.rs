//! A signing service that is away.

use serde_json::Value;
use testkit::{Anvil, AnvilOptions, RpcProxy, eventually_within};

use crate::stage::{LONG, Stage, assert_says};
use crate::support::{Backend, assert_mined_once, id};

const SIGN: &str = "eth_signTransaction";
const COUNT: u64 = 200;

/// A burst, in the middle of which nobody signs for thirty blocks.
///
/// Fails if what cannot be signed is given up or overtaken, or if nobody says why it waits.
async fn a_signing_service_away_for_thirty_blocks_loses_nothing(backend: Backend) {
    let options = AnvilOptions { block_time_seconds: Some(1), ..Default::default() };
    let anvil = Anvil::start(options).await;
    let remote = RpcProxy::start(anvil.url()).await;
    let proxy = RpcProxy::start(anvil.url()).await;
    let signer = anvil.accounts().await.remove(0);
    let options = backend.node(&proxy.url()).remote_signer(&remote.url(), &signer);
    let node = options.start().await;
    let stage = Stage { anvil, proxy, node, signer };

    // Slow enough that the burst does not end before the service does.
    remote.delay(SIGN, std::time::Duration::from_millis(100));
    let mut accepted = stage.hand_over(1..=COUNT / 2).await;
    remote.refuse().await;
    accepted.extend(stage.hand_over(COUNT / 2 + 1..=COUNT).await);
    let away_at = stage.anvil.height().await;
    let finding = stage.finding("signer-unavailable").await;
    assert_eq!(finding["severity"], "blocked");
    assert_says(&finding["words"], "the signer gives no signatures, and ");
    assert_says(&finding["words"], "transactions wait: ");
    assert_eq!(finding["remedy"]["kind"], "mend-signer", "{finding:#}");
    eventually_within(LONG, "thirty blocks without a signer", async || {
        (stage.anvil.height().await >= away_at + 30).then_some(())
    })
    .await;
    stage.finding("signer-unavailable").await;
    assert!(stage.node.has_any(&stage.signer, "CREATED").await, "nobody signed");
    assert!(!stage.node.has_any(&stage.signer, "FAILED").await, "no timer gives up");
    remote.heal().await;

    let confirmed = stage.node.all_confirmed(&stage.signer, COUNT as usize).await;
    let order: Vec<&str> = confirmed.iter().map(id).collect();
    assert_eq!(order, accepted.iter().map(id).collect::<Vec<_>>());
    let nonces: Vec<Option<u64>> =
        confirmed.iter().map(|tx: &Value| tx["nonce"].as_u64()).collect();
    assert!(nonces.into_iter().eq((0..COUNT).map(Some)), "in the order of acceptance");
    assert_mined_once(&stage.anvil, &stage.signer, &confirmed).await;
    stage.is_healthy().await;
}

on_both_stores!(a_signing_service_away_for_thirty_blocks_loses_nothing);
