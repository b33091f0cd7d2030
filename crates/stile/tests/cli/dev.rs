//! `stile dev`.

use std::path::Path;

use testkit::{Anvil, AnvilOptions, DEADLINE, Launch, Signal, programs};

use crate::common::{Finished, SIGNER, run_in, stile};

const DEV: [&str; 4] = ["dev", "--once", "--listen", "127.0.0.1:0"];

/// The lowest and the highest nonce used, and the one given back, that were shown for a signer.
fn shown(output: &str, signer: &str) -> [u64; 3] {
    let line = output.lines().find(|line| line.trim_start().starts_with(&format!("{signer}:")));
    let line = line.unwrap_or_else(|| panic!("no line for {signer}: {output}"));
    let words = line.split(|character: char| !character.is_ascii_alphanumeric());
    let numbers: Vec<u64> = words.skip(1).filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().unwrap_or_else(|_| panic!("{line}"))
}

/// Runs the command once and returns what it showed for the first signer.
async fn once(directory: &Path, more: &[&str]) -> [u64; 3] {
    let finished = run_in(directory, &[&DEV, more].concat()).await;
    shown(finished.ok(), SIGNER)
}

#[tokio::test]
async fn it_works_in_an_empty_directory_with_an_empty_environment() {
    let directory = tempfile::tempdir().unwrap();
    let env = programs::on_path("env").unwrap();
    let process = Launch::new(env)
        .args(["-i", env!("CARGO_BIN_EXE_stile")])
        .args(DEV)
        .current_directory(directory.path())
        .start();
    let finished = Finished::of(&process).await;
    let output = finished.ok();
    assert_eq!(shown(output, SIGNER), [0, 8, 9]);
    assert_eq!(output.lines().filter(|line| line.starts_with("signer ")).count(), 3, "{output}");
    for hint in
        ["Try next:", "/allocate", "/used", "/api/v1/signers", "/metrics", "http://127.0.0.1:"]
    {
        assert!(output.contains(hint), "{hint} is missing: {output}");
    }
    assert_eq!(finished.stderr, "", "nothing to worry about");
    assert!(directory.path().join(".stile/dev.db").exists());
}

#[tokio::test]
async fn it_continues_where_it_was_unless_asked_to_start_over() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(once(directory.path(), &[]).await, [0, 8, 9]);
    let [lowest, highest, given_back] = once(directory.path(), &[]).await;
    assert!(lowest >= 9, "nonces 0 to 8 are used up: {lowest}");
    assert!(highest.max(given_back) <= 19, "nothing was skipped: {highest} {given_back}");
    assert_eq!(once(directory.path(), &["--fresh"]).await, [0, 8, 9]);
}

#[tokio::test]
async fn with_a_chain_it_sends_from_where_the_chain_is() {
    let anvil = Anvil::start(AnvilOptions::default()).await;
    for _ in 0..3 {
        anvil.send_transfer(SIGNER, None).await;
    }
    let directory = tempfile::tempdir().unwrap();
    let sent = run_in(directory.path(), &[&DEV[..], &["--rpc-url", anvil.url()]].concat()).await;
    let output = sent.ok();
    assert!(output.contains("9 transactions, 9 of them mined"), "{output}");
    assert!(output.contains("stile tx send"), "{output}");
    assert_eq!(anvil.nonce(SIGNER, "latest").await, 6);
    let elsewhere = tempfile::tempdir().unwrap();
    let url = format!("http://127.0.0.1:{}", testkit::free_port());
    let refused = run_in(elsewhere.path(), &[&DEV[..], &["--rpc-url", &url]].concat()).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("no endpoint of chain 31337 answered"), "{refused:?}");
}

#[tokio::test]
async fn it_serves_until_it_is_interrupted_and_is_not_started_over_under_somebody() {
    let directory = tempfile::tempdir().unwrap();
    let process = stile(&["dev", "--listen", "127.0.0.1:0"]).current_directory(directory.path());
    let process = process.start();
    process.wait_for_line(|line| line == "Ctrl-C stops.", DEADLINE).await;
    let output = process.stdout();
    let url = output.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let allocated = client.post(format!("{url}/api/v1/nonces/{SIGNER}/allocate")).send().await;
    let allocated: serde_json::Value = allocated.unwrap().json().await.unwrap();
    assert_eq!(allocated["nonce"], 9, "the one that was given back");

    let refused = run_in(directory.path(), &[&DEV[..], &["--fresh"]].concat()).await;
    let by = format!("in use by process {}", process.id());
    assert!(refused.failure().contains(&by), "{refused:?}");
    process.signal(Signal::Int);
    assert_eq!(process.wait_exit(DEADLINE).await.code(), Some(0));
    assert!(once(directory.path(), &[]).await[0] >= 10);
}
