//! Tasks that panic.
//!
//! Fails if a node goes on with half of its tasks, keeps its lanes, or ends as if all were well; or if
//! anything is lost or made twice by that.

use serde_json::Value;
use testkit::{Anvil, AnvilOptions, eventually};

use crate::common::{Database, Finished, NodeOptions, StileProcess};
use crate::support::{Backend, assert_mined_once, id, transfer};

/// How a node ends of which a task has panicked.
const PANICKED: i32 = 70;

/// Those that run in every node which sends, or whenever something is sent.
const EVERYWHERE: [&str; 21] = [
    "renew",
    "keep",
    "cluster",
    "rollout",
    "retention",
    "restored",
    "reconcile",
    "sweep",
    "orphans",
    "queue",
    "record",
    "bind-poll",
    "submit",
    "follow",
    "receipts",
    "estimates",
    "resubmit",
    "learn",
    "server",
    "registry-look",
    "registry-tick",
];

/// Those that do one thing for a request, beside its way.
const UPON_REQUEST: [&str; 2] = ["bind", "send"];

/// Where a test says which task is to panic.
struct Told(tempfile::TempDir);

impl Told {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn options(&self, options: NodeOptions) -> NodeOptions {
        options.environment("PANIC_WHEN_TOLD", &self.0.path().display().to_string())
    }

    fn tell(&self, task: &str) {
        std::fs::write(self.0.path().join(task), "").unwrap();
    }
}

/// The node ends by itself, says why, and not as if all were well.
async fn leaves(node: &StileProcess, task: &str) {
    let finished = Finished::of(&node.process).await;
    let why = format!("the task \"{task}\" has panicked: told to by a test");
    assert!(finished.stderr.contains(&why), "{task}: {}", finished.stderr);
    assert_eq!(finished.code, Some(PANICKED), "{task}: {}", finished.stderr);
}

/// Sends a body again until it is taken, as callers do.
async fn is_taken(node: &StileProcess, body: &Value) {
    eventually("it to be taken", async || {
        let answer = node.request("POST", "/api/v1/tx").json(body).send().await;
        answer.is_ok_and(|answer| answer.status().is_success()).then_some(())
    })
    .await;
}

async fn hole_34_a_task_that_panics_ends_the_node_and_nothing_is_lost(backend: Backend) {
    let anvil =
        Anvil::start(AnvilOptions { block_time_seconds: Some(1), ..Default::default() }).await;
    let told = Told::new();
    let options = backend.node(anvil.url()).development_keys(1).set("retention.finished", "1h");
    let options = told.options(options);
    let signer = anvil.accounts().await.remove(0);
    let mut bodies: Vec<Value> = Vec::new();
    let mut node = options.start().await;
    for task in EVERYWHERE {
        let body = transfer(&signer, bodies.len() as u64 + 1);
        is_taken(&node, &body).await;
        bodies.push(body);
        told.tell(task);
        leaves(&node, task).await;
        node = options.start().await;
    }
    for task in UPON_REQUEST {
        let body = transfer(&signer, bodies.len() as u64 + 1);
        told.tell(task);
        // Whatever is answered, if anything is.
        let _ = node.request("POST", "/api/v1/tx").json(&body).send().await;
        leaves(&node, task).await;
        node = options.start().await;
        is_taken(&node, &body).await;
        bodies.push(body);
    }
    let txs = node.all_confirmed(&signer, bodies.len()).await;
    assert_mined_once(&anvil, &signer, &txs).await;
}

/// Its leases are long, so nothing is taken over that was not given back.
#[tokio::test]
async fn hole_34_what_a_node_holds_of_which_a_task_panics_is_taken_over() {
    let options = AnvilOptions { no_mining: true, ..Default::default() };
    let (database, anvil) = tokio::join!(Database::new(), Anvil::start(options));
    let told = Told::new();
    let options = |name| {
        NodeOptions::postgres(name, &database.url, &[])
            .endpoint(anvil.url())
            .development_keys(1)
            .lease("10m", "1m")
            .set("cluster.not_holder", "accept")
            .set_literal("confirmations.required", "1")
    };
    let a = told.options(options("a")).start().await;
    let signer = anvil.accounts().await.remove(0);
    let first = a.send_new(&transfer(&signer, 1)).await;
    a.reaches(id(&first), "SUBMITTED").await;
    let b = options("b").start().await;
    told.tell("follow");
    leaves(&a, "follow").await;
    b.send_new(&transfer(&signer, 2)).await;
    anvil.set_interval_mining(1).await;
    let txs = b.all_confirmed(&signer, 2).await;
    assert_eq!(b.signer(&signer).await["ownerNode"], "b");
    assert_mined_once(&anvil, &signer, &txs).await;
}

on_both_stores!(hole_34_a_task_that_panics_ends_the_node_and_nothing_is_lost,);
