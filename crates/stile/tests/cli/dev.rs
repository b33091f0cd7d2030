//! `stile dev`.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Anvil, AnvilOptions, DEADLINE, Launch, Process, Signal, programs};

use crate::common::{Finished, SIGNER, run_in, stile};

const DEV: [&str; 4] = ["dev", "--once", "--listen", "127.0.0.1:0"];

/// The lines of the transactions that were shown.
fn shown(output: &str) -> Vec<&str> {
    output.lines().filter(|line| line.contains("   nonce ")).collect()
}

/// The nonces of the first signer that were shown.
fn nonces(output: &str) -> Vec<u64> {
    let of_signer = shown(output).into_iter().filter(|line| line.contains(SIGNER));
    let nonce = |line: &str| {
        let (_, rest) = line.split_once("   nonce ").unwrap();
        rest.split_whitespace().next().unwrap().parse().unwrap_or_else(|_| panic!("{line}"))
    };
    of_signer.map(nonce).collect()
}

/// Checks that everything was shown, and ended well; the nonces of the first signer.
fn all_confirmed(output: &str) -> Vec<u64> {
    assert!(output.contains("sent     11 transactions, all CONFIRMED:"), "{output}");
    assert!(shown(output).iter().all(|line| line.ends_with("   CONFIRMED")), "{output}");
    assert_eq!(shown(output).len(), 11, "{output}");
    nonces(output)
}

/// Runs the command once and returns the nonces that it showed for the first signer.
async fn once(directory: &Path, more: &[&str]) -> Vec<u64> {
    let finished = run_in(directory, &[&DEV, more].concat()).await;
    all_confirmed(finished.ok())
}

/// A command that serves on, and the URLs of its server and of its chain.
async fn serving(directory: &Path) -> (Process, String, String) {
    let process = stile(&["dev", "--listen", "127.0.0.1:0"]).current_directory(directory).start();
    process.wait_for_line(|line| line == "Ctrl-C stops.", DEADLINE).await;
    let output = process.stdout();
    let url = |name: &str| {
        let line = output.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned()
    };
    let urls = (url("server "), url("chain "));
    (process, urls.0, urls.1)
}

/// The result of a call of the chain.
async fn rpc(chain: &str, method: &str, params: Value) -> Value {
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let answer = client().post(chain).json(&request).send().await.unwrap();
    let mut answer: Value = answer.json().await.unwrap();
    assert!(answer.get("error").is_none(), "{method}: {answer}");
    answer["result"].take()
}

fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

async fn get(url: String) -> Value {
    client().get(url).send().await.unwrap().json().await.unwrap()
}

/// The states of the first signer's transactions, by nonce; those without one come last.
async fn states(server: &str) -> Vec<String> {
    let page = get(format!("{server}/api/v1/tx?signer={SIGNER}&limit=100")).await;
    let items = page["items"].as_array().unwrap_or_else(|| panic!("{page}"));
    let mut states: Vec<(Option<u64>, String)> = items
        .iter()
        .map(|tx| (tx["nonce"].as_u64(), tx["state"].as_str().unwrap().to_owned()))
        .collect();
    states.sort_by_key(|(nonce, _)| nonce.unwrap_or(u64::MAX));
    let nonces = states.iter().filter_map(|(nonce, _)| *nonce);
    assert!(nonces.zip(0..).all(|(nonce, expected)| nonce == expected), "{states:?}");
    states.into_iter().map(|(_, state)| state).collect()
}

#[tokio::test]
async fn it_works_in_an_empty_directory_with_an_empty_environment() {
    let directory = tempfile::tempdir().unwrap();
    let env = programs::on_path("env").unwrap();
    let process = Launch::new(env)
        .args(["-i", "PATH=", "HOME=", env!("CARGO_BIN_EXE_stile")])
        .args(DEV)
        .current_directory(directory.path())
        .start();
    let finished = Finished::of(&process).await;
    let output = finished.ok();
    assert_eq!(all_confirmed(output), [0, 1, 2, 3, 4]);
    assert_eq!(output.lines().filter(|line| line.starts_with("signer ")).count(), 3, "{output}");
    for hint in [
        "Try next:",
        "/api/v1/tx ",
        "stile tx send",
        "stile tx list",
        "cast balance",
        "/docs",
        "http://127.0.0.1:",
    ] {
        assert!(output.contains(hint), "{hint} is missing: {output}");
    }
    assert_eq!(finished.stderr, "", "nothing to worry about");
    for file in ["dev.db", "dev.chain"] {
        assert!(directory.path().join(".stile").join(file).exists(), "{file}");
    }
}

#[tokio::test]
async fn it_continues_where_it_was_unless_asked_to_start_over() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(once(directory.path(), &[]).await, [0, 1, 2, 3, 4]);
    assert_eq!(once(directory.path(), &[]).await, [5, 6, 7, 8, 9]);
    let (process, server, _) = serving(directory.path()).await;
    assert_eq!(states(&server).await, ["CONFIRMED"; 15], "the earlier ones too");
    process.signal(Signal::Int);
    assert_eq!(process.wait_exit(DEADLINE).await.code(), Some(0));
    assert_eq!(once(directory.path(), &["--fresh"]).await, [0, 1, 2, 3, 4]);
}

#[tokio::test]
async fn chain_and_store_survive_a_kill_together() {
    let directory = tempfile::tempdir().unwrap();
    let (process, server, chain) = serving(directory.path()).await;
    let request = json!({
        "signer": SIGNER, "requestId": "last words", "payload": { "to": SIGNER, "value": "1" },
    });
    let sent = client().post(format!("{server}/api/v1/tx")).json(&request).send().await.unwrap();
    assert_eq!(sent.status(), 202);
    // In the pool or in a block, nobody knows.
    process.signal(Signal::Kill);
    process.wait_exit(DEADLINE).await;
    let (process, server, again) = serving(directory.path()).await;
    assert_ne!((&chain, process.id()), (&again, 0), "another process");
    let states = testkit::eventually("everything to be confirmed", async || {
        let states = states(&server).await;
        states.iter().all(|state| state == "CONFIRMED").then_some(states)
    })
    .await;
    assert_eq!(states.len(), 5 + 1 + 5, "no nonce was lost, and none was used twice");
}

#[tokio::test]
async fn it_can_be_killed_at_any_moment_of_its_first_start() {
    let directory = tempfile::tempdir().unwrap();
    let chain = directory.path().join(".stile/dev.chain");
    let store = directory.path().join(".stile/dev.db");
    let arguments = ["dev", "--listen", "127.0.0.1:0"];
    let start = || stile(&arguments).current_directory(directory.path()).start();
    for made in [&chain, &store] {
        let process = start();
        testkit::eventually("a file to be made", async || made.exists().then_some(())).await;
        process.signal(Signal::Kill);
        process.wait_exit(DEADLINE).await;
    }
    // While the first transactions are on their way.
    let process = start();
    process.wait_for_line(|line| line.starts_with("signer "), DEADLINE).await;
    process.signal(Signal::Kill);
    process.wait_exit(DEADLINE).await;
    let (_process, server, _) = serving(directory.path()).await;
    let states = testkit::eventually("everything to be confirmed", async || {
        let states = states(&server).await;
        states.iter().all(|state| state == "CONFIRMED").then_some(states)
    })
    .await;
    assert!(states.len() >= 5, "{states:?}");
}

#[tokio::test]
async fn what_does_not_belong_together_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join(".stile");
    once(directory.path(), &[]).await;
    for (gone, there) in [("dev.chain", "dev.db"), ("dev.db", "dev.chain")] {
        let kept = directory.path().join("kept");
        std::fs::rename(data.join(gone), &kept).unwrap();
        let refused = run_in(directory.path(), &DEV).await;
        let message = refused.failure();
        assert!(
            message.contains(&format!(".stile/{there} is there, but .stile/{gone}")),
            "{message}"
        );
        assert!(message.contains("--fresh"), "{message}");
        let _ = std::fs::remove_file(data.join(gone));
        std::fs::rename(&kept, data.join(gone)).unwrap();
    }
    let chain = std::fs::read_to_string(data.join("dev.chain")).unwrap();
    let other = chain.replacen("\"chain_id\":31337", "\"chain_id\":4711", 1);
    assert_ne!(chain, other);
    std::fs::write(data.join("dev.chain"), other).unwrap();
    let refused = run_in(directory.path(), &DEV).await;
    assert!(refused.failure().contains("its id is 4711, not 31337"), "{refused:?}");
    assert!(refused.failure().contains("--fresh"), "{refused:?}");
    std::fs::write(data.join("dev.chain"), chain).unwrap();
    assert_eq!(once(directory.path(), &[]).await[0], 5, "nothing was lost by that");
}

#[tokio::test]
async fn a_given_chain_has_a_store_of_its_own() {
    let anvil =
        Anvil::start(AnvilOptions { block_time_seconds: Some(1), ..Default::default() }).await;
    for _ in 0..3 {
        anvil.send_transfer(SIGNER, None).await;
    }
    testkit::eventually("the transfers to be mined", async || {
        (anvil.nonce(SIGNER, "latest").await == 3).then_some(())
    })
    .await;
    let directory = tempfile::tempdir().unwrap();
    let given = ["--rpc-url", anvil.url()];
    assert_eq!(once(directory.path(), &given).await, [3, 4, 5, 6, 7]);
    assert_eq!(anvil.nonce(SIGNER, "latest").await, 8);
    assert_eq!(once(directory.path(), &[]).await, [0, 1, 2, 3, 4], "a chain of its own");
    assert_eq!(once(directory.path(), &given).await, [8, 9, 10, 11, 12]);
    let both = [&DEV[..], &given, &["--chain-listen", "127.0.0.1:0"]].concat();
    assert_eq!(run_in(directory.path(), &both).await.code, Some(2));
    let elsewhere = tempfile::tempdir().unwrap();
    let url = format!("http://127.0.0.1:{}", testkit::free_port());
    let refused = run_in(elsewhere.path(), &[&DEV[..], &["--rpc-url", &url]].concat()).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("no endpoint of chain 31337 answered"), "{refused:?}");
}

#[tokio::test]
async fn it_serves_until_it_is_interrupted_and_is_not_started_over_under_somebody() {
    let directory = tempfile::tempdir().unwrap();
    let (process, server, chain) = serving(directory.path()).await;
    let page = client().get(format!("{server}/")).send().await.unwrap();
    assert_eq!(page.status(), 200);
    assert!(page.text().await.unwrap().contains("<html"), "the live page");
    let id = rpc(&chain, "eth_chainId", json!([])).await;
    assert_eq!(id, "0x7a69", "and the chain, for everybody on this machine");
    // What is printed can be tried.
    let output = process.stdout();
    let hint = output.lines().find_map(|line| line.trim().strip_prefix("stile tx send")).unwrap();
    let arguments: Vec<&str> = ["tx", "send"].into_iter().chain(hint.split_whitespace()).collect();
    let sent = run_in(directory.path(), &arguments).await;
    assert!(sent.ok().contains("CONFIRMED"), "{sent:?}");

    let refused = run_in(directory.path(), &[&DEV[..], &["--fresh"]].concat()).await;
    let by = format!("in use by process {}", process.id());
    assert!(refused.failure().contains(&by), "{refused:?}");
    let refused = run_in(directory.path(), &DEV).await;
    assert!(refused.failure().contains("another stile dev runs on it"), "{refused:?}");
    process.signal(Signal::Int);
    assert_eq!(process.wait_exit(DEADLINE).await.code(), Some(0));
    assert_eq!(once(directory.path(), &[]).await[0], 6);
}

#[tokio::test]
async fn what_a_fork_takes_back_lands_again() {
    let directory = tempfile::tempdir().unwrap();
    let (_process, server, chain) = serving(directory.path()).await;
    let head = rpc(&chain, "eth_blockNumber", json!([])).await;
    rpc(&chain, "dev_reorg", json!([{ "depth": head, "transactions": "drop" }])).await;
    testkit::eventually("all transactions to be on the chain again", async || {
        let nonce = rpc(&chain, "eth_getTransactionCount", json!([SIGNER, "latest"])).await;
        (nonce == "0x5").then_some(())
    })
    .await;
    testkit::eventually("everything to be confirmed again", async || {
        (states(&server).await == ["CONFIRMED"; 5]).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_chain_listens_where_it_is_asked_to() {
    let directory = tempfile::tempdir().unwrap();
    let address = format!("127.0.0.1:{}", testkit::free_port());
    let taken = std::net::TcpListener::bind(&address).unwrap();
    let arguments = [&DEV[..], &["--chain-listen", &address]].concat();
    let refused = run_in(directory.path(), &arguments).await;
    assert!(refused.failure().contains(&format!("cannot listen on {address}")), "{refused:?}");
    drop(taken);
    let finished = run_in(directory.path(), &arguments).await;
    assert!(finished.ok().contains(&format!("chain    http://{address}")), "{finished:?}");
    let arguments = [&DEV[..], &["--chain-listen", "0.0.0.0:0"]].concat();
    let refused = run_in(directory.path(), &arguments).await;
    assert!(refused.failure().contains("loopback addresses only"), "{refused:?}");
    // If somebody else has the usual place now, it may be free again when it is asked for.
    let usual = std::net::TcpListener::bind("127.0.0.1:8545");
    let finished = run_in(directory.path(), &DEV).await;
    let said = finished.ok().contains("127.0.0.1:8545 is taken)");
    assert!(said || usual.is_err(), "{finished:?}");
}

#[tokio::test]
async fn it_says_who_can_reach_it() {
    let directory = tempfile::tempdir().unwrap();
    let remark = |output: &str| {
        let line = output.lines().find(|line| line.starts_with("server ")).unwrap();
        line.split_once('(').unwrap().1.trim_end_matches(')').to_owned()
    };
    let finished = run_in(directory.path(), &DEV).await;
    assert_eq!(remark(finished.ok()), "only this machine can reach it");
    let config = directory.path().join("stile.toml");
    std::fs::write(config, "store.url = \"sqlite://.stile/dev.db\"\n").unwrap();
    let key = ["key", "create", "--name", "guest", "--signer", "all", "--config", "stile.toml"];
    run_in(directory.path(), &key).await.ok();
    let finished = run_in(directory.path(), &DEV).await;
    assert_eq!(remark(finished.ok()), "only this machine can reach it, with an API key");
    let everywhere = ["dev", "--once", "--listen", "0.0.0.0:0"];
    let finished = run_in(directory.path(), &everywhere).await;
    assert_eq!(remark(finished.ok()), "other machines can reach it, with an API key");
}

/// Every server looks how many files there are for connections, whoever starts it.
#[tokio::test]
async fn hole_45_a_server_has_as_many_connections_as_there_are_files() {
    let directory = tempfile::tempdir().unwrap();
    let few = "ulimit -n 300; exec \"$@\"";
    let launch = Launch::new("/bin/sh").args(["-c", few, "sh", env!("CARGO_BIN_EXE_stile")]);
    let launch = launch.args(DEV).current_directory(directory.path());
    let finished = Finished::of(&launch.start()).await;
    all_confirmed(finished.ok());
    assert!(finished.stderr.contains("connections=150"), "{finished:?}");
}
