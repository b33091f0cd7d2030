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

/// Of several nodes, each command as short as it gets, on a private server.
async fn assert_tidy(command: &str, further: &[&str]) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let arguments = [&["bench", command, "--json"], further].concat();
    let report = report(directory.path(), &arguments).await;
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    report
}

#[tokio::test]
async fn several_nodes_are_measured_and_their_databases_removed() {
    // On somebody's server, in which nothing else is touched.
    let server = testkit::Postgres::shared().await;
    let url = server.database().await;
    let arguments = ["--store-url", &url, "--nodes", "1,2", "--signers", "6", "--callers", "3"];
    let report = assert_tidy("cluster", &[&arguments[..], &["--seconds", "2"]].concat()).await;
    assert_positive(&report["raw"], &["boundPerSecond"]);
    let rows = figures(&report, "cluster");
    assert_eq!(rows.len(), 4, "one node, and three ways to call two: {rows:#?}");
    for row in &rows {
        assert_eq!(row["refused"], 0, "{row:#}");
        assert_positive(row, &["perSecond", "p50Ms", "p99Ms", "shareOfRaw", "walBytesPerTx"]);
        let statements = row["leaseStatementsPerSecond"].as_object().unwrap();
        for kind in ["acquire", "renew", "take_over", "heartbeat", "look"] {
            assert!(statements.contains_key(kind), "{row:#}");
        }
    }
    assert!(rows[0]["timesOneNode"].is_null(), "{rows:#?}");
    assert_positive(&rows[1], &["timesOneNode"]);
    let databases = crate::common::Database { url };
    let left = "SELECT datname FROM pg_database WHERE datname LIKE 'stile_bench_%'";
    assert_eq!(databases.rows(left).await, Vec::<Vec<String>>::new());
}

#[tokio::test]
async fn kills_are_measured_until_lanes_are_at_work_again() {
    let arguments = ["--nodes", "2", "--lanes", "4", "--kills", "2", "--lease", "1s"];
    let report = assert_tidy("failover", &arguments).await;
    let kills = figures(&report, "kills");
    assert_eq!(kills.len(), 2, "{report:#}");
    assert_ne!(kills[0]["node"], kills[1]["node"], "one after the other");
    for seen in kills.iter().chain([&report["all"]]) {
        for delays in ["killToHeld", "killToBound", "expiryToHeld", "expiryToBound"] {
            assert_positive(&seen[delays], &["count", "medianMs", "p90Ms", "worstMs"]);
        }
    }
    assert_eq!(report["leaseMs"], 1000.0);
}

#[tokio::test]
async fn a_node_that_holds_every_lane_is_killed() {
    let arguments = ["--one-holder", "--nodes", "3", "--lanes", "30", "--kills", "1"];
    let report = assert_tidy("failover", &[&arguments[..], &["--sample", "7"]].concat()).await;
    let all = &report["all"];
    assert_eq!(all["killToHeld"]["count"], 30, "{report:#}");
    assert_eq!(all["killToBound"]["count"], 6, "each fifth: {report:#}");
}

/// Nodes as processes, one of which is killed: what it left in flight, some of it large, is sent again
/// by the others, and none of those loses a lane over it.
#[tokio::test]
async fn hole_36_what_a_killed_node_left_in_flight_is_sent_again() {
    let arguments = [
        "--nodes",
        "2",
        "--lanes",
        "30",
        "--in-flight",
        "20",
        "--large",
        "10",
        "--kills",
        "1",
        "--lease",
        "4s",
    ];
    let report = assert_tidy("failover", &arguments).await;
    assert_eq!(report["inFlight"], 600, "{report:#}");
    let all = &report["all"];
    assert_positive(&all["killToFirstSent"], &["count", "medianMs", "worstMs"]);
    assert_eq!(all["killToFirstSent"]["count"], all["killToHeld"]["count"], "{report:#}");
    let survivors = &report["survivors"];
    assert_positive(survivors, &["renewed", "peakMemoryMb"]);
    assert_eq!(survivors["lost"], 0.0, "{report:#}");
}

#[tokio::test]
async fn lanes_asked_for_in_vain_are_counted_in_both_modes() {
    let arguments = ["--nodes", "3", "--lanes", "3", "--callers", "3", "--calls", "60"];
    let report = assert_tidy("acquires", &arguments).await;
    let lines = figures(&report, "acquires");
    assert_eq!(lines.len(), 2, "{report:#}");
    for (line, mode) in lines.iter().zip(["basic", "worker-queue"]) {
        assert_eq!((&line["mode"], &line["callsRefused"]), (&mode.into(), &0.into()), "{line:#}");
        assert_positive(line, &["asked", "callsPerSecond"]);
    }
    assert_positive(&lines[0], &["inVain", "inVainPer1000Calls"]);
}

/// What other callers notice of an attack, with a very small one.
#[tokio::test]
async fn an_attack_is_measured_from_before_until_after() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = [
        "bench",
        "abuse",
        "--json",
        "--streams",
        "5",
        "--half-sent",
        "3",
        "--wrong-keys",
        "40",
        "--others",
        "40",
        "--seconds",
        "1",
    ];
    let report = report(directory.path(), &arguments).await;
    let phases = figures(&report, "phases");
    let names: Vec<_> = phases.iter().map(|phase| phase["phase"].as_str().unwrap()).collect();
    assert_eq!(names, ["before", "during", "after"]);
    for phase in &phases {
        assert_positive(phase, &["calls", "p50Ms", "p99Ms", "p50Ratio", "p99Ratio"]);
    }
    assert_eq!(report["attack"]["streamsOpen"], 5, "{report:#}");
    assert_positive(&report["attack"], &["halfSent", "wrongKeys"]);
    // Only root is told what another process has open.
    let sockets = |phase: usize| phases[phase]["sockets"].as_u64();
    if let (Some(before), Some(after)) = (sockets(0), sockets(2)) {
        assert!(after <= before, "they did not come back: {report:#}");
    }
}
