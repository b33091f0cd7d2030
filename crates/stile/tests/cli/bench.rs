//! `stile bench`: that every figure is there. What the figures are is no test's business.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::common::{Finished, stile};

/// For a dozen figures of a second each, and all that is started for them, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

async fn report(directory: &Path, arguments: &[&str]) -> Value {
    let process = stile(arguments).current_directory(directory).start();
    serde_json::from_str(Finished::within(&process, PATIENCE).await.ok()).unwrap()
}

fn figures(report: &Value, part: &str) -> Vec<Value> {
    report[part].as_array().unwrap_or_else(|| panic!("no {part} in {report:#}")).clone()
}

fn assert_positive(figure: &Value, fields: &[&str]) {
    for field in fields {
        assert!(figure[*field].as_f64().is_some_and(|value| value > 0.0), "{field} of {figure:#}");
    }
}

/// Everything that is measured of transactions, as short as it gets, in an empty directory.
async fn assert_measures(store: &str, chain: &str) {
    let directory = tempfile::tempdir().unwrap();
    let arguments = [
        "bench",
        "tx",
        "--json",
        "--stores",
        store,
        "--chain",
        chain,
        "--signers",
        "2",
        "--callers",
        "3",
        "--batch",
        "5",
        "--seconds",
        "1",
        "--land",
        "20",
        "--in-flight",
        "40",
        "--history",
        "200",
    ];
    let report = report(directory.path(), &arguments).await;

    let raw = figures(&report, "rawStore");
    assert_eq!(raw.len(), 1, "{raw:#?}");
    assert_positive(&raw[0], &["waitingPerSecond", "boundPerSecond"]);
    let raw = figures(&report, "rawChain");
    assert_eq!(raw.len(), 1, "{raw:#?}");
    assert_positive(&raw[0], &["takenPerSecond", "minedSeconds"]);

    // Both calls, with the window as it is, open, and with history.
    let accepted = figures(&report, "accepted");
    assert_eq!(accepted.len(), 6, "{accepted:#?}");
    for figure in &accepted {
        assert_eq!(figure["store"], store);
        assert_eq!(figure["refused"], 0, "{figure:#}");
        assert_positive(figure, &["perSecond", "p50Ms", "p99Ms", "shareOfRaw"]);
    }
    let with_history = accepted.iter().filter(|figure| figure["history"] == 200).count();
    assert_eq!(with_history, 2, "{accepted:#?}");

    let landed = figures(&report, "landed");
    assert_eq!((landed.len(), &landed[0]["count"]), (1, &20.into()), "{landed:#?}");
    let footprint = figures(&report, "footprint");
    assert_eq!(footprint.len(), 2, "{footprint:#?}");
    assert_eq!((&footprint[0]["inFlight"], &footprint[1]["history"]), (&40.into(), &200.into()));
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

#[tokio::test]
async fn transactions_are_measured_on_the_embedded_store() {
    assert_measures("sqlite", "dev").await;
}

#[tokio::test]
async fn transactions_are_measured_on_postgres_and_anvil() {
    assert_measures("postgres", "anvil").await;
}

#[tokio::test]
async fn nonces_are_measured() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = [
        "bench",
        "allocate",
        "--json",
        "--stores",
        "sqlite",
        "--lanes",
        "2",
        "--callers",
        "4",
        "--http-callers",
        "4",
        "--seconds",
        "1",
    ];
    let report = report(directory.path(), &arguments).await;
    let lines = figures(&report, "allocate");
    assert_eq!(lines.len(), 4, "both modes, in process and over HTTP: {lines:#?}");
    for line in &lines {
        assert_positive(line, &["perSecond", "p50Ms", "timesSingleRowCommits"]);
    }
}
