//! What is kept over restarts and kills.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use alloy_primitives::TxKind;
use serde_json::{Value, json};
use stile_devchain::accounts::ALL;
use stile_devchain::{Clock, DevChain, DevChainError, Options, counter};

use crate::common::{Chain, TO, manual, sign, transfer, with_data};

fn kept(file: &Path) -> Options {
    Options { state: Some(file.to_owned()), ..manual() }
}

async fn hashes(chain: &Chain) -> Vec<Value> {
    let mut hashes = Vec::new();
    for number in 0..=chain.head().await {
        hashes.push(chain.block(format!("0x{number:x}")).await["hash"].clone());
    }
    hashes
}

/// A chain with something of everything that is written down.
async fn busy(file: &Path) -> Chain {
    let chain = Chain::start(kept(file)).await;
    chain.send(&sign(0, with_data(0, TxKind::Create, counter::CREATION))).await;
    chain.mine(5).await;
    let contract = TxKind::Call(ALL[0].address.create(0));
    chain.send(&sign(0, with_data(1, contract, &counter::INCREMENT))).await;
    chain.mine(1).await;
    chain.rpc("dev_setBalance", json!([TO, "0x99"])).await;
    chain.rpc("dev_setBaseFee", json!(["0x5"])).await;
    chain.mine(2).await;
    chain.rpc("dev_reorg", json!([{ "depth": 3 }])).await;
    chain.rpc("dev_setNonce", json!([ALL[2].address, 7])).await;
    chain.send(&transfer(1, 0)).await;
    chain.mine(1).await;
    chain
}

#[tokio::test]
async fn a_chain_goes_on_where_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("chain");
    let chain = busy(&file).await;
    let before = hashes(&chain).await;
    chain.send(&transfer(1, 1)).await;
    let in_use = DevChain::start(kept(&file)).await.unwrap_err();
    assert!(matches!(in_use, DevChainError::InUse(_)), "{in_use}");
    chain.chain.stop().await;
    let chain = Chain::start(kept(&file)).await;
    assert_eq!(hashes(&chain).await, before);
    assert_eq!(chain.waiting().await, (0, 0), "the pool is not kept");
    let count = json!([{ "to": ALL[0].address.create(0), "data": "0x06661abd" }, "latest"]);
    assert_eq!(chain.rpc("eth_call", count).await, format!("0x{:064x}", 1));
    assert_eq!(chain.nonce(1, "latest").await, 1);
    assert_eq!(chain.nonce(2, "latest").await, 7);
    chain.send(&transfer(1, 1)).await;
    chain.mine(1).await;
    chain.rpc("dev_reorg", json!([{ "depth": 1, "transactions": "drop" }])).await;
    let after = hashes(&chain).await;
    chain.chain.stop().await;
    assert_eq!(hashes(&Chain::start(kept(&file)).await).await, after);
}

#[tokio::test]
async fn whatever_was_seen_is_in_the_file_at_any_moment() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("chain");
    let chain = Chain::start(kept(&file)).await;
    let copy = directory.path().join("copy");
    for nonce in 0..4 {
        chain.send(&transfer(0, nonce)).await;
        chain.mine(1).await;
        // What would be left of it if the process were killed now.
        std::fs::copy(&file, &copy).unwrap();
        let survivor = Chain::start(kept(&copy)).await;
        assert_eq!(hashes(&survivor).await, hashes(&chain).await);
        assert_eq!(survivor.nonce(0, "latest").await, nonce + 1);
        survivor.chain.stop().await;
    }
}

#[tokio::test]
async fn a_torn_end_is_cut_off() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("chain");
    let chain = busy(&file).await;
    let whole = hashes(&chain).await;
    chain.chain.stop().await;
    let bytes = std::fs::read(&file).unwrap();
    let last = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    for length in last + 1..bytes.len() {
        std::fs::write(&file, &bytes[..length]).unwrap();
        let chain = Chain::start(kept(&file)).await;
        assert_eq!(hashes(&chain).await, whole[..whole.len() - 1], "{length} of {}", bytes.len());
        if length + 1 == bytes.len() {
            chain.mine(2).await;
            let more = hashes(&chain).await;
            chain.chain.stop().await;
            assert_eq!(hashes(&Chain::start(kept(&file)).await).await, more, "it can go on");
        } else {
            chain.chain.stop().await;
        }
    }
    for garbage in [&b"\0\0\0\0"[..], b"\xff\xfe\n", b"{\"e\":"] {
        std::fs::write(&file, [&bytes[..], garbage].concat()).unwrap();
        let chain = Chain::start(kept(&file)).await;
        assert_eq!(hashes(&chain).await, whole);
        chain.chain.stop().await;
        assert_eq!(std::fs::read(&file).unwrap(), bytes);
    }
}

#[tokio::test]
async fn damage_and_other_chains_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("chain");
    busy(&file).await.chain.stop().await;
    let refusal = async |options: Options| DevChain::start(options).await.unwrap_err().to_string();
    for (options, reason) in [
        (Options { chain_id: 1, ..kept(&file) }, "its id is 31337, not 1"),
        (Options { seed: 1, ..kept(&file) }, "another gas limit, seed or time"),
        (Options { gas_limit: 30_000_000, ..kept(&file) }, "another gas limit, seed or time"),
        (Options { accounts: Vec::new(), ..kept(&file) }, "it began with other accounts"),
        (
            Options { clock: Clock::Given { start: 1, step: 1 }, ..kept(&file) },
            "another gas limit, seed or time",
        ),
    ] {
        let refused = refusal(options).await;
        assert!(refused.contains("keeps another chain"), "{refused}");
        assert!(refused.contains(reason), "{refused}");
    }
    let bytes = std::fs::read(&file).unwrap();
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let without_third = [&lines[..2], &lines[3..]].concat().concat();
    std::fs::write(&file, without_third).unwrap();
    let refused = refusal(kept(&file)).await;
    assert!(refused.contains("line 3: block 2 comes out with another hash"), "{refused}");
    let with_garbage = [&lines[..2], &[&b"garbage\n"[..]], &lines[2..]].concat().concat();
    std::fs::write(&file, with_garbage).unwrap();
    let refused = refusal(kept(&file)).await;
    assert!(refused.contains("line 3: expected value"), "{refused}");
    let elsewhere = directory.path().join("nowhere/chain");
    assert!(refusal(kept(&elsewhere)).await.contains("No such file"));
}

#[tokio::test]
async fn a_clock_of_the_system_is_kept_too() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("chain");
    let options = Options { clock: Clock::System, ..kept(&file) };
    let chain = Chain::start(options.clone()).await;
    chain.mine(3).await;
    let before = hashes(&chain).await;
    chain.chain.stop().await;
    // Half a line, as a process leaves it that was killed while it wrote.
    OpenOptions::new().append(true).open(&file).unwrap().write_all(b"{\"e\":[17").unwrap();
    let chain = Chain::start(options).await;
    assert_eq!(hashes(&chain).await, before);
    chain.mine(1).await;
    assert_eq!(chain.head().await, 4);
}
