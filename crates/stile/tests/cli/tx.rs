//! `stile tx` and `stile signer`, against a node on a real chain.

use serde_json::Value;
use tempfile::TempDir;
use testkit::{Anvil, AnvilOptions};

use crate::common::{Finished, NodeOptions, SIGNER, StileProcess, run};

/// The key of [`SIGNER`], which everybody knows.
const KEY: &str = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
const TO: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
/// Has no key here.
const WATCHED: &str = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC";

/// A chain with a block a second, and a node on it.
struct Place {
    node: StileProcess,
    _chain: Anvil,
    _directory: TempDir,
}

impl Place {
    async fn start() -> Self {
        let options = AnvilOptions { block_time_seconds: Some(1), ..AnvilOptions::default() };
        let chain = Anvil::start(options).await;
        let directory = tempfile::tempdir().unwrap();
        let signers = [WATCHED.to_owned()];
        let node = NodeOptions::sqlite(&directory.path().join("stile.db"), &signers)
            .endpoint(chain.url())
            .key_in_environment("TEST_KEY", KEY)
            .set_literal("confirmations.required", "1")
            .start()
            .await;
        Self { node, _chain: chain, _directory: directory }
    }

    async fn run(&self, arguments: &[&str]) -> Finished {
        run(&[arguments, &["--url", self.node.url()]].concat()).await
    }

    async fn json(&self, arguments: &[&str]) -> Value {
        let finished = self.run(&[arguments, &["--json"]].concat()).await;
        serde_json::from_str(finished.ok()).unwrap()
    }
}

#[tokio::test]
async fn a_transaction_from_the_terminal_lands() {
    let place = Place::start().await;
    let send = ["tx", "send", "--signer", SIGNER, "--to", TO, "--value", "0.5eth"];
    let named = [&send[..], &["--request-id", "rent"]].concat();
    let sent = place.run(&[&named[..], &["--wait"]].concat()).await;
    for part in ["CONFIRMED", "success", "500000000000000000 wei", "rent"] {
        assert!(sent.ok().contains(part), "{part} is missing: {sent:#?}");
    }
    for part in ["ACCEPTED", "BOUND", "SENT", "MINED", "CONFIRMED"] {
        assert!(sent.stderr.contains(part), "{part} is missing: {sent:#?}");
    }
    let again = place.json(&named).await;
    let id = again["txId"].as_str().unwrap();
    assert_eq!((&again["nonce"], &again["state"]), (&0.into(), &"CONFIRMED".into()));
    assert_eq!(place.json(&["tx", "get", id]).await["txHash"], again["txHash"]);
    assert!(place.run(&["tx", "get", id]).await.ok().contains(id));
    assert_eq!(place.json(&["tx", "watch", id]).await["outcome"], "success");
    let list = place.json(&["tx", "list", "--signer", SIGNER, "--state", "confirmed"]).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list}");
    assert!(place.run(&["tx", "list"]).await.ok().contains(id));
    assert_eq!(
        place.json(&["tx", "list", "--state", "FAILED"]).await["items"],
        serde_json::json!([])
    );
    assert_eq!(place.json(&["signer", "show", SIGNER]).await["nextNonce"], 1);
    let signers = place.run(&["signer", "list"]).await;
    assert!(signers.ok().contains(SIGNER) && signers.ok().contains(WATCHED), "{signers:#?}");
    assert!(place.run(&["signer", "show", SIGNER]).await.ok().contains("next nonce"));

    let differs = place.run(&[&named[..], &["--gas-limit", "50000"]].concat()).await;
    for part in ["request-id-reused", id, "hint: "] {
        assert!(differs.failure().contains(part), "{part} is missing: {differs:#?}");
    }
    let keyless = place.run(&["tx", "send", "--signer", WATCHED, "--to", TO]).await;
    assert!(keyless.failure().contains("no-key"), "{keyless:#?}");
}

#[tokio::test]
async fn what_is_done_cannot_be_cancelled_or_sped_up() {
    let place = Place::start().await;
    let send = ["tx", "send", "--signer", SIGNER, "--to", TO, "--wait"];
    let limits = ["--fee-limit", "100gwei", "--resend-if-replaced"];
    let sent = place.json(&[&send[..], &limits].concat()).await;
    assert_eq!(sent["payload"]["feeLimit"], "100000000000", "{sent}");
    assert_eq!(sent["payload"]["resendIfReplaced"], true, "{sent}");
    let id = sent["txId"].as_str().unwrap();
    for command in [
        &["tx", "cancel", id][..],
        &["tx", "speed-up", id],
        &[
            "tx",
            "speed-up",
            id,
            "--max-fee-per-gas",
            "9gwei",
            "--max-priority-fee-per-gas",
            "2gwei",
        ],
    ] {
        let refused = place.run(command).await;
        assert!(refused.failure().contains("(too-late)"), "{refused:#?}");
    }
}

#[tokio::test]
async fn a_signer_is_looked_after_from_the_terminal() {
    let place = Place::start().await;
    let early = place.run(&["signer", "doctor", SIGNER]).await;
    assert!(early.failure().contains("(lane-not-started)"), "{early:#?}");
    let send = ["tx", "send", "--signer", SIGNER, "--to", TO, "--wait"];
    place.run(&send).await.ok();
    let diagnosis = place.json(&["signer", "doctor", SIGNER]).await;
    assert_eq!(diagnosis["healthy"], true, "{diagnosis}");
    let summary = diagnosis["summary"].as_str().unwrap();
    assert!(place.run(&["signer", "doctor", SIGNER]).await.ok().starts_with(summary));
    let repair = place.run(&["signer", "repair", SIGNER, "--apply"]).await;
    assert!(repair.ok().ends_with("There is nothing to mend.\n"), "{repair:#?}");
    let found = place.run(&["signer", "reconcile", SIGNER]).await;
    assert_eq!(found.ok(), "Nothing was found that does not agree with the chain.\n");
    let plan = place.run(&["signer", "resume", SIGNER, "--dry-run"]).await;
    assert!(plan.ok().contains("nothing was changed"), "{plan:#?}");
    let history = place.run(&["signer", "history", SIGNER, "--limit", "1"]).await;
    assert!(history.ok().contains("STARTED"), "{history:#?}");
    let paused = place.run(&["signer", "pause", SIGNER, "--reason", "key rotation"]).await;
    assert!(paused.ok().contains("key rotation"), "{paused:#?}");
    let diagnosis = place.run(&["signer", "doctor", SIGNER]).await;
    assert!(diagnosis.ok().contains("a person has paused the signer"), "{diagnosis:#?}");
    let resumed = place.run(&["signer", "resume", SIGNER]).await;
    assert!(resumed.ok().starts_with("The signer goes on."), "{resumed:#?}");
}

#[tokio::test]
async fn waiting_for_a_transaction_that_reverts_fails_and_says_so() {
    let place = Place::start().await;
    // A contract whose code reverts while it is deployed; the gas is given, so nothing is
    // estimated.
    let deploy = ["--data", "0x60006000fd", "--gas-limit", "100000", "--wait"];
    let finished = place.run(&[&["tx", "send", "--signer", SIGNER][..], &deploy].concat()).await;
    assert_eq!(finished.code, Some(1), "{finished:#?}");
    assert!(finished.stdout.contains("reverted"), "how it ended is shown: {finished:#?}");
    assert!(finished.stderr.contains("error: the transaction was mined in block"), "{finished:#?}");
}

#[tokio::test]
async fn what_cannot_be_meant_is_a_mistake_in_usage() {
    let to = ["--to", TO];
    for bad in [
        &["--signer", "0x12", to[0], to[1]][..],
        &["--signer", SIGNER, "--to", &SIGNER.replace("f39F", "f39f")],
        &["--signer", SIGNER],
        &["--signer", SIGNER, to[0], to[1], "--value", "1,5eth"],
        &["--signer", SIGNER, to[0], to[1], "--finality", "soon"],
        &["--signer", SIGNER, to[0], to[1], "--gas-limit", "-1"],
        &["--signer", SIGNER, to[0], to[1], "--url", "127.0.0.1:7420"],
    ] {
        let finished = run(&[&["tx", "send"], bad].concat()).await;
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""), "{finished:#?}");
    }
    for bad in [
        &["tx", "cancel"][..],
        &["tx", "speed-up", "an-id", "--gas-price", "1,5gwei"],
        &["tx", "speed-up", "an-id", "--max-fee-per-gas", "30gwei"],
        &["tx", "speed-up", "an-id", "--max-priority-fee-per-gas", "1gwei"],
        &["signer", "repair", SIGNER],
        &["signer", "repair", SIGNER, "--apply", "--dry-run"],
        &["signer", "repair", SIGNER, "--apply", "--attest", "seven"],
        &["signer", "history", SIGNER, "--limit", "0"],
    ] {
        let finished = run(bad).await;
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""), "{finished:#?}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_with_what_to_do() {
    let url = format!("http://127.0.0.1:{}", testkit::free_port());
    for command in [
        &["tx", "get", "01890000-0000-7000-8000-000000000000"][..],
        &["tx", "list"],
        &["tx", "send", "--signer", SIGNER, "--to", TO],
        &["signer", "list"],
        &["signer", "show", SIGNER],
        &["signer", "doctor", SIGNER],
        &["signer", "repair", SIGNER, "--dry-run"],
        &["tx", "cancel", "01890000-0000-7000-8000-000000000000"],
    ] {
        let finished = run(&[command, &["--url", &url]].concat()).await;
        for part in [url.as_str(), "stile serve", "--url", "STILE_URL"] {
            assert!(finished.failure().contains(part), "{part} is missing: {finished:#?}");
        }
    }
}
