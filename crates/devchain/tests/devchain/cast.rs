//! cast, a client that many people use.

use alloy_primitives::hex;
use serde_json::Value;
use stile_devchain::accounts::{ALL, MNEMONIC};
use stile_devchain::{Blocks, Options, counter};
use testkit::{DEADLINE, Launch, programs};

use crate::common::{Chain, TO, manual};

/// Runs cast against a chain, or against none, and returns what it prints.
async fn cast(chain: Option<&Chain>, arguments: &[&str]) -> String {
    let home = tempfile::tempdir().unwrap();
    let mut launch = Launch::new(programs::cast())
        .args(arguments)
        .env("HOME", home.path())
        .env("NO_PROXY", "127.0.0.1");
    if let Some(chain) = chain {
        launch = launch.env("ETH_RPC_URL", chain.chain.url());
    }
    let process = launch.start();
    let status = process.wait_exit(DEADLINE).await;
    assert!(status.success(), "cast {arguments:?}: {} {}", process.stdout(), process.stderr());
    process.stdout().trim().to_owned()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[tokio::test]
async fn it_sends_deploys_calls_and_looks() {
    let chain = Chain::start(Options { blocks: Blocks::Instant, ..manual() }).await;
    let run = async |arguments: &[&str]| cast(Some(&chain), arguments).await;
    let (to, key) = (TO.to_string(), ALL[0].key.to_string());
    let from = ALL[0].address.to_string();
    assert_eq!(run(&["estimate", "--from", &from, &to, "--value", "1"]).await, "21000");
    let sent = run(&["send", "--json", "--private-key", &key, &to, "--value", "1ether"]).await;
    let hash = json(&sent)["transactionHash"].as_str().unwrap().to_owned();
    assert_eq!(run(&["receipt", &hash, "status"]).await, "true");
    assert_eq!(run(&["balance", &to]).await, "1000000000000000000");
    let from = ALL[1].address.to_string();
    let sent = run(&["send", "--json", "--unlocked", "--from", &from, &to, "--value", "1"]).await;
    assert_eq!(json(&sent)["status"], "0x1");
    let old =
        run(&["send", "--json", "--legacy", "--private-key", &key, &to, "--value", "1"]).await;
    assert_eq!(json(&old)["type"], "0x0");

    let creation = hex::encode_prefixed(counter::CREATION);
    let sent = run(&["send", "--json", "--private-key", &key, "--create", &creation]).await;
    let contract = json(&sent)["contractAddress"].as_str().unwrap().to_owned();
    run(&["send", "--private-key", &key, &contract, "increment()"]).await;
    assert_eq!(run(&["call", &contract, "count()(uint256)"]).await, "1");
    let logs = run(&["logs", "--json", "--address", &contract, "--from-block", "0"]).await;
    assert_eq!(json(&logs)[0]["topics"][0], counter::INCREMENTED.to_string());

    let block = run(&["block", "latest", "--json", "--full"]).await;
    let block = json(&block);
    assert_eq!(block["number"], "0x5");
    assert_eq!(block["transactions"][0]["input"], hex::encode_prefixed(counter::INCREMENT));
    assert_eq!(block["hash"].as_str().unwrap(), run(&["block", "latest", "-f", "hash"]).await);
    assert_eq!(run(&["nonce", &ALL[0].address.to_string()]).await, "4");
    assert_eq!(run(&["chain-id"]).await, "31337");
    assert_eq!(run(&["rpc", "dev_mine", "3"]).await, "\"0x8\"");
    assert_eq!(run(&["block-number"]).await, "8");
}

#[tokio::test]
async fn the_accounts_are_those_of_the_mnemonic() {
    for (index, account) in ALL.iter().enumerate() {
        let index = index.to_string();
        let words = ["wallet", "private-key", MNEMONIC, &index];
        assert_eq!(cast(None, &words).await, account.key.to_string());
    }
}
