//! `stile tx watch`: a transaction, until it is done.
//!
//! Events only say when to look; what is shown is always read from the transaction itself. So a
//! stream that breaks off costs promptness and nothing else.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use super::show::{self, confirmations, standing};
use crate::cli::Failure;
use crate::cli::client::{CallError, Client, ServerArgs};
use crate::cli::table::{harmless, text};

/// How long changes may go unseen that come without an event.
const POLL: Duration = Duration::from_secs(1);
/// How long the server may be away.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub(in crate::cli) struct WatchArgs {
    /// The transaction's id, as `stile tx send` printed it.
    #[arg(value_name = "TX_ID")]
    id: String,
    #[command(flatten)]
    server: ServerArgs,
}

pub(super) async fn watch(
    args: WatchArgs,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    let client = args.server.client(environment)?;
    let tx = client.get(&show::path(&args.id), &[]).await?;
    let tx = until_done(&client, tx).await?;
    show::print(&tx, args.server.json)?;
    verdict(&tx)
}

/// Whether it did what it was to do, and why not.
pub(super) fn verdict(tx: &Value) -> Result<(), Failure> {
    let (state, outcome) = (text(&tx["state"]), text(&tx["outcome"]));
    if state == "CONFIRMED" && outcome == "success" {
        return Ok(());
    }
    let why = match tx["error"].as_str() {
        Some(error) => format!(": {error}"),
        None => String::new(),
    };
    let block = text(&tx["receipt"]["blockNumber"]);
    if state == "CONFIRMED" && outcome == "unknown" {
        return Err(format!(
            "the transaction was mined in block {block}, and whether it did what it was to do is not known{why}"
        )
        .into());
    }
    if state == "CONFIRMED" {
        return Err(format!("the transaction was mined in block {block} and reverted{why}").into());
    }
    Err(format!("the transaction is not on chain: {}{why}", standing(tx)).into())
}

/// Follows a transaction until it is done, with progress on standard error.
pub(super) async fn until_done(client: &Client, mut tx: Value) -> Result<Value, Failure> {
    let path = show::path(&text(&tx["txId"]));
    let progress = Progress::new();
    let mut wakeups = Wakeups::open(client, &text(&tx["txId"])).await;
    let mut last_answer = Instant::now();
    let (mut told, mut wait) = (0, String::new());
    loop {
        match look(client, &path).await {
            Ok((now, history)) => {
                (tx, last_answer) = (now, Instant::now());
                told = progress.tell(&history, told);
                wait = progress.tell_wait(&tx, wait);
                progress.show(&tx);
            }
            Err(error) if error.passes() && last_answer.elapsed() < PATIENCE => {
                progress.away(&error);
            }
            Err(error) => return Err(error.into()),
        }
        if matches!(tx["state"].as_str(), Some("CONFIRMED" | "FAILED")) {
            progress.end();
            return Ok(tx);
        }
        wakeups.next().await;
    }
}

async fn look(client: &Client, path: &str) -> Result<(Value, Value), CallError> {
    let tx = client.get(path, &[]).await?;
    Ok((tx, client.get(&format!("{path}/history"), &[]).await?))
}

/// What it waits for without its numbers: a second more or a block less is nothing new.
fn kind_of_wait(tx: &Value) -> String {
    let words = text(&tx["waitingFor"]["words"]);
    let words: String = words.chars().filter(|letter| !letter.is_ascii_digit()).collect();
    format!("{}{}", text(&tx["waitingFor"]["code"]), words.replace("blocks", "block"))
}

/// When to look again: at an event, else after a while.
struct Wakeups {
    stream: Option<reqwest::Response>,
}

impl Wakeups {
    async fn open(client: &Client, id: &str) -> Self {
        let query = [("txId", id.to_owned())];
        let opening = tokio::time::timeout(POLL, client.open("/api/v1/events", &query)).await;
        Self { stream: opening.ok().and_then(Result::ok) }
    }

    async fn next(&mut self) {
        let Some(stream) = &mut self.stream else { return tokio::time::sleep(POLL).await };
        match tokio::time::timeout(POLL, stream.chunk()).await {
            // Whatever it says, something may have happened.
            Ok(Ok(Some(_))) | Err(_) => {}
            Ok(Ok(None) | Err(_)) => self.stream = None,
        }
    }
}

/// What has happened as lines, and where it stands as a line that changes.
struct Progress {
    line: ProgressBar,
}

impl Progress {
    fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { line: ProgressBar::hidden() };
        }
        let line = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
            line.set_style(style);
        }
        line.enable_steady_tick(Duration::from_millis(120));
        Self { line }
    }

    /// Tells the entries that were not told before.
    fn tell(&self, history: &Value, told: u64) -> u64 {
        let items = history["items"].as_array().cloned().unwrap_or_default();
        let fresh = items.iter().filter(|entry| entry["seq"].as_u64() > Some(told));
        for entry in fresh {
            let (at, kind) = (text(&entry["at"]), text(&entry["kind"]));
            self.line.suspend(|| eprintln!("{at}  {kind:<16} {}", standing(entry)));
        }
        items.last().and_then(|entry| entry["seq"].as_u64()).unwrap_or(told)
    }

    /// Tells what it waits for, if that is something else than before.
    fn tell_wait(&self, tx: &Value, told: String) -> String {
        let (now, words) = (kind_of_wait(tx), text(&tx["waitingFor"]["words"]));
        if now != told && !now.is_empty() {
            let code = text(&tx["waitingFor"]["code"]);
            let words = harmless(&format!("waits for {code}: {words}"));
            self.line.suspend(|| eprintln!("{words}"));
        }
        now
    }

    fn show(&self, tx: &Value) {
        self.line.set_message(format!("{}, confirmations {}", standing(tx), confirmations(tx)));
    }

    fn away(&self, error: &CallError) {
        let words = error.to_string();
        let words = words.lines().next().unwrap_or_default();
        self.line.set_message(format!("{words}; trying again"));
    }

    fn end(&self) {
        self.line.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{kind_of_wait, verdict};

    #[test]
    fn hole_38_a_wait_is_told_when_it_becomes_another_one() {
        let waits = |code, words| json!({ "waitingFor": { "code": code, "words": words } });
        let two = kind_of_wait(&waits("confirmations", "2 more blocks on top of its own."));
        assert_eq!(two, kind_of_wait(&waits("confirmations", "1 more block on top of its own.")));
        let still = "2 more blocks. Chain 5 has made no block for 45 s.";
        assert_ne!(two, kind_of_wait(&waits("confirmations", still)));
        assert_ne!(two, kind_of_wait(&waits("block", "2 more blocks on top of its own.")));
        assert_eq!(kind_of_wait(&json!({ "waitingFor": null })), "");
    }

    #[test]
    fn only_success_is_success() {
        assert!(verdict(&json!({ "state": "CONFIRMED", "outcome": "success" })).is_ok());
        let receipt = json!({ "blockNumber": 7 });
        let reverted = json!({ "state": "CONFIRMED", "outcome": "reverted", "receipt": receipt });
        let words = verdict(&reverted).unwrap_err().to_string();
        assert!(words.contains("block 7") && words.contains("reverted"), "{words}");
        let untold = json!({ "state": "CONFIRMED", "outcome": "unknown", "receipt": receipt });
        let words = verdict(&untold).unwrap_err().to_string();
        assert!(words.contains("block 7") && words.contains("not known"), "{words}");
        let lost = json!({ "state": "FAILED", "subState": "REPLACED_EXTERNALLY", "error": "0x12 took it" });
        let words = verdict(&lost).unwrap_err().to_string();
        assert!(words.contains("REPLACED_EXTERNALLY") && words.contains("0x12"), "{words}");
    }
}
