//! viem, the client of many programs in JavaScript: `viem.mjs` says what is done with it.

use serde_json::json;
use stile_devchain::{Blocks, Options, counter};
use testkit::{DEADLINE, Launch, programs};

use crate::common::{Chain, manual};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/devchain/viem.mjs");

#[tokio::test]
async fn it_transfers_deploys_reads_and_finds_logs() {
    let blocks = Blocks::Every(std::time::Duration::from_millis(50));
    let chain = Chain::start(Options { blocks, ..manual() }).await;
    let process = Launch::new(programs::node_with_viem())
        .args([SCRIPT, &chain.chain.url(), &alloy_primitives::hex::encode(counter::CREATION)])
        .start();
    let status = process.wait_exit(DEADLINE).await;
    assert!(status.success(), "{} {}", process.stdout(), process.stderr());
    let seen: serde_json::Value = serde_json::from_str(&process.stdout()).unwrap();
    let expected = json!({
        "transfer": "success", "unlocked": "success", "deployment": "success",
        "call": "success", "count": "1", "logs": ["1"], "estimate": "21000",
        "revert": "no luck", "latest": true,
    });
    assert_eq!(seen, expected);
}
