//! Readers of the stream of events, when the database has another history than the one they have read.
//!
//! Fails if a reader waits behind a place that the new history has not come to, misses anything of it,
//! or is not told.

use std::net::SocketAddr;

use serde_json::{Value, json};
use testkit::{Anvil, AnvilOptions, Postgres, TcpProxy};

use crate::common::{NodeOptions, StileProcess};
use crate::support::{id, transfer};

/// One event of the stream.
#[derive(Debug)]
struct Frame {
    id: String,
    event: String,
    data: Value,
}

/// A client of the stream.
struct Reader {
    stream: reqwest::Response,
    read: String,
}

impl Reader {
    async fn from(node: &StileProcess, last_id: &str) -> Self {
        let request = node.request("GET", "/api/v1/events").header("last-event-id", last_id);
        let stream = request.send().await.unwrap();
        assert!(stream.status().is_success(), "{last_id}: {}", stream.status());
        Self { stream, read: String::new() }
    }

    /// Reads on up to an event; answers with everything that came, that one the last.
    async fn until(&mut self, wanted: impl Fn(&Frame) -> bool) -> Vec<Frame> {
        let mut frames = Vec::new();
        loop {
            while let Some((frame, rest)) = self.read.split_once("\n\n") {
                let field = |name: &str| {
                    let line = frame.lines().find_map(|line| line.strip_prefix(name));
                    line.map(|line| line.trim().to_owned())
                };
                let (place, event, data) = (field("id:"), field("event:"), field("data:"));
                self.read = rest.to_owned();
                let (Some(id), Some(event), Some(data)) = (place, event, data) else { continue };
                let frame = Frame { id, event, data: serde_json::from_str(&data).unwrap() };
                let found = wanted(&frame);
                frames.push(frame);
                if found {
                    return frames;
                }
            }
            let chunk = tokio::time::timeout(testkit::DEADLINE, self.stream.chunk()).await;
            let chunk = chunk.unwrap_or_else(|_| panic!("it does not come: {frames:#?}"));
            let chunk = chunk.unwrap().unwrap_or_else(|| panic!("the stream ended: {frames:#?}"));
            self.read.push_str(&String::from_utf8_lossy(&chunk));
        }
    }

    /// Reads on up to this entry of a transaction's history.
    async fn until_told(&mut self, tx: &Value, kind: &str) -> Vec<Frame> {
        self.until(|frame| frame.data["txId"] == tx["txId"] && frame.data["kind"] == kind).await
    }
}

/// The client is told first, and then everything of the new history comes.
fn assert_told(frames: &[Frame], node: &str) -> String {
    let first = &frames[0];
    assert_eq!(
        (&*first.event, &first.data["kind"]),
        ("history", &json!("HISTORY_CHANGED")),
        "{node}"
    );
    let (from, to) = (&first.data["from"], &first.data["to"]);
    assert!(from["history"].is_string() && from["history"] != to["history"], "{first:?}");
    assert!(first.data["words"].as_str().unwrap().contains("failed over or was restored"));
    assert!(first.id.ends_with(to["history"].as_str().unwrap()), "{first:?}");
    let again = frames[1..].iter().filter(|frame| frame.event == "history").count();
    assert_eq!(again, 0, "once: {frames:#?}");
    first.id.clone()
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// PostgreSQL fails over to a standby that has everything, or has not heard of the last commits.
async fn fail_over(lagging: bool) {
    let options = AnvilOptions { block_time_seconds: Some(1), ..Default::default() };
    let (anvil, mut primary) = tokio::join!(Anvil::start(options), Postgres::start(&[]));
    let database = TcpProxy::start(local(primary.port())).await;
    let primary_url = primary.database().await;
    let name = primary_url.rsplit('/').next().unwrap();
    let url = format!("postgres://postgres@{}/{name}", database.addr());
    let signer = anvil.accounts().await.remove(0);
    let node = NodeOptions::postgres("a", &url, &[])
        .endpoint(anvil.url())
        .development_keys(1)
        .lease("2s", "500ms")
        .set_literal("confirmations.required", "1")
        .start()
        .await;
    let kept = node.send_new(&transfer(&signer, 1)).await;
    node.reaches(id(&kept), "CONFIRMED").await;
    let mut live = Reader::from(&node, "0-0").await;
    let frames = live.until_told(&kept, "CONFIRMED").await;
    assert!(frames.iter().all(|frame| frame.event != "history"), "{frames:#?}");

    let mut standby = primary.start_standby().await;
    if lagging {
        standby.stop_immediate().await;
        // The history that will be lost counts far ahead.
        let burn = "DO $$ BEGIN FOR i IN 1..5000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$";
        let (client, connection) =
            tokio_postgres::connect(&primary_url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(burn).await.unwrap();
    }
    let last = node.send_new(&transfer(&signer, 2)).await;
    node.reaches(id(&last), "CONFIRMED").await;
    let place = live.until_told(&last, "CONFIRMED").await.pop().unwrap().id;
    if !lagging {
        standby.has_caught_up_with(&primary).await;
    }
    primary.stop_immediate().await;
    if lagging {
        standby.start_again().await;
    }
    standby.promote().await;
    database.point_to(local(standby.port()));

    let mut taken = None;
    let new = testkit::eventually("a transaction to be taken", async || {
        let answer = node.send(&transfer(&signer, 3)).await;
        taken = (answer.status < 300).then(|| answer.json());
        taken.clone()
    })
    .await;
    // One that stayed, and one that comes back.
    let stayed = live.until_told(&new, "ACCEPTED").await;
    let mut back = Reader::from(&node, &place).await;
    let came_back = back.until_told(&new, "ACCEPTED").await;
    for (frames, who) in [(&stayed, "stayed"), (&came_back, "came back")] {
        let named = assert_told(frames, who);
        let told = &frames[0].data;
        assert_eq!(told["from"]["timeline"], "00000001", "{told:#}");
        assert_eq!(told["to"]["timeline"], "00000002", "{told:#}");
        // From there on it goes on as ever.
        let mut on = Reader::from(&node, &named).await;
        let frames = on.until_told(&new, "ACCEPTED").await;
        assert!(frames.iter().all(|frame| frame.event != "history"), "{frames:#?}");
    }
    let status = node.get(&format!("/api/v1/tx/{}", id(&last))).await.status;
    assert_eq!(status, if lagging { 404 } else { 200 });
}

#[tokio::test]
async fn hole_30_a_reader_goes_on_after_a_failover_that_lost_the_last_commits() {
    fail_over(true).await;
}

#[tokio::test]
async fn hole_30_a_reader_goes_on_after_a_failover_that_lost_nothing() {
    fail_over(false).await;
}

#[tokio::test]
async fn hole_30_a_reader_goes_on_in_an_older_file() {
    let anvil =
        Anvil::start(AnvilOptions { block_time_seconds: Some(1), ..Default::default() }).await;
    let signer = anvil.accounts().await.remove(0);
    let directory = tempfile::tempdir().unwrap();
    let (file, backup) = (directory.path().join("stile.db"), directory.path().join("backup.db"));
    let options = NodeOptions::sqlite(&file, &[])
        .endpoint(anvil.url())
        .development_keys(1)
        .set_literal("confirmations.required", "1");
    let node = options.start().await;
    let kept = node.send_new(&transfer(&signer, 1)).await;
    node.reaches(id(&kept), "CONFIRMED").await;
    crate::support::copy(&file, &backup);
    for wei in 2..8 {
        node.reaches(id(&node.send_new(&transfer(&signer, wei)).await), "CONFIRMED").await;
    }
    let lost = node.send_new(&transfer(&signer, 8)).await;
    node.reaches(id(&lost), "CONFIRMED").await;
    let mut reader = Reader::from(&node, "0-0").await;
    let place = reader.until_told(&lost, "CONFIRMED").await.pop().unwrap().id;
    node.terminate().await;
    crate::support::put_back(&backup, &file);

    let node = options.start().await;
    let new = node.send_new(&transfer(&signer, 9)).await;
    let frames = Reader::from(&node, &place).await.until_told(&new, "ACCEPTED").await;
    assert_told(&frames, "came back");
    // The two parted where the copy ends, which is known: nothing comes twice.
    let again = frames.iter().filter(|frame| frame.data["txId"] == kept["txId"]).count();
    assert_eq!(again, 0, "{frames:#?}");
}
