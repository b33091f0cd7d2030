//! PostgreSQL away: every call says so in time, and work goes on by itself.
//!
//! Fails if a call hangs for longer than the configured time-outs allow, is answered with anything
//! but 503 and `Retry-After`, leaves something half-done, or if somebody has to start the node again.

use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;
use testkit::{Postgres, eventually};

use crate::common::{Answer, NodeOptions, StileProcess, signer};

/// With a statement time-out of one second a caller waits for four (`2 × 1 + 2`), and this machine
/// for a while.
const LIMIT: Duration = Duration::from_secs(7);

struct Setup {
    server: Postgres,
    node: StileProcess,
    signer: String,
    /// The nonces that were answered with.
    answered: Vec<u64>,
}

impl Setup {
    async fn new(mode: &str) -> Self {
        let server = Postgres::start(&[]).await;
        let signer = signer(1);
        let node =
            NodeOptions::postgres("a", &server.database().await, std::slice::from_ref(&signer))
                .mode(mode)
                .lease("4s", "1s")
                .set("store.statement_timeout", "1s")
                .set("store.lock_timeout", "500ms")
                .start()
                .await;
        let mut setup = Self { server, node, signer, answered: Vec::new() };
        setup.works().await;
        setup
    }

    /// Another nonce is given out, and nobody else has any: what was answered with 503 was not
    /// written, or has been given back.
    async fn works(&mut self) {
        let hold = eventually("the node to work again", async || {
            let answer = self.node.allocate(&self.signer).await;
            if answer.status != 200 {
                says_when_to_come_back(&answer);
            }
            (answer.status == 200).then_some(answer)
        })
        .await;
        assert!(!self.answered.contains(&hold.nonce()), "{} was given out before", hold.nonce());
        self.answered.push(hold.nonce());
        let client = self.connect().await;
        eventually("everything else to be given back", async || {
            let held = "SELECT nonce FROM nonce WHERE status = 'HELD' ORDER BY nonce";
            let held = client.query(held, &[]).await.expect("read the ledger");
            let held: Vec<u64> =
                held.iter().map(|row| row.get::<_, i64>(0).unsigned_abs()).collect();
            let mut answered = self.answered.clone();
            answered.sort_unstable();
            (held == answered).then_some(())
        })
        .await;
    }

    async fn connect(&self) -> tokio_postgres::Client {
        let url = self.server.url("test_1");
        let (client, connection) =
            tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("connect");
        tokio::spawn(connection);
        client
    }

    /// Every kind of call is answered in time with a word on when to come back.
    async fn is_away(&self) {
        let node = &self.node;
        let hold =
            json!({ "holdId": "0197a3c0-0000-7000-8000-000000000000", "reason": "not sent" });
        let signer = &self.signer;
        let post = async |path: String, body| node.post(&path, body).await;
        let began = Instant::now();
        let (allocate, mark, show, list) = tokio::join!(
            node.allocate(signer),
            post(format!("/api/v1/nonces/{signer}/0/recyclable"), hold),
            async { node.get(&format!("/api/v1/signers/{signer}")).await },
            async { node.get(&format!("/api/v1/tx?signer={signer}")).await },
        );
        for (call, answer) in
            [("allocate", allocate), ("mark", mark), ("show", show), ("list", list)]
        {
            assert_eq!(answer.status, 503, "{call}: {answer:?}");
            says_when_to_come_back(&answer);
        }
        assert!(began.elapsed() < LIMIT, "took {:?}", began.elapsed());
        // What was found out a moment ago is believed.
        eventually("the node to say that it is not ready", async || {
            (node.get("/health/ready").await.status == 503).then_some(())
        })
        .await;
        assert_eq!(node.get("/health/live").await.status, 200);
    }
}

fn says_when_to_come_back(answer: &Answer) {
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(answer.json()["code"], "store-unavailable", "{answer:?}");
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
}

async fn a_server_that_is_stopped(mode: &str) {
    let mut setup = Setup::new(mode).await;
    for _ in 0..2 {
        setup.server.stop_immediate().await;
        setup.is_away().await;
        setup.server.start_again().await;
        setup.works().await;
    }
}

#[tokio::test]
async fn a_server_that_is_stopped_and_started_in_basic_mode() {
    a_server_that_is_stopped("basic").await;
}

#[tokio::test]
async fn a_server_that_is_stopped_and_started_in_worker_queue_mode() {
    a_server_that_is_stopped("worker-queue").await;
}

#[tokio::test]
async fn a_server_that_stands_still() {
    let mut setup = Setup::new("worker-queue").await;
    let frozen = setup.server.freeze();
    setup.is_away().await;
    drop(frozen);
    setup.works().await;
}

/// Restarted under the node's feet: its connections are dead, and it does not know.
#[tokio::test]
async fn a_server_that_was_restarted_in_between() {
    let mut setup = Setup::new("worker-queue").await;
    for _ in 0..3 {
        setup.server.stop_immediate().await;
        setup.server.start_again().await;
        setup.works().await;
    }
}

/// Every connection waits for tables that somebody else has locked. Calls that find none are told, and
/// so are those that wait in line for the same lane.
#[tokio::test]
async fn a_pool_without_a_free_connection() {
    let mut setup = Setup::new("basic").await;
    let client = setup.connect().await;
    client.batch_execute("BEGIN; LOCK TABLE lane, nonce").await.unwrap();
    let began = Instant::now();
    let (node, signer) = (&setup.node, &setup.signer);
    let allocations = join_all((0..50).map(|_| node.allocate(signer)));
    let reads = join_all((0..20).map(|_| node.get("/api/v1/signers")));
    let (mut answers, reads) = tokio::join!(allocations, reads);
    assert!(began.elapsed() < LIMIT, "took {:?}", began.elapsed());
    answers.extend(reads);
    answers.iter().for_each(says_when_to_come_back);
    let starved = answers.iter().filter(|answer| answer.text.contains("no connection to be had"));
    assert!(starved.count() > 0, "nobody was without a connection");
    client.batch_execute("COMMIT").await.unwrap();
    setup.works().await;
}
