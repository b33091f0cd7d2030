//! `stile signer restored`.

use std::collections::HashMap;

use clap::Args;
use serde_json::{Map, Value, json};

use super::Which;
use crate::cli::Failure;
use crate::cli::table::{self, text};

#[derive(Debug, Args)]
pub(in crate::cli) struct RestoredArgs {
    #[command(flatten)]
    which: Which,
    /// What still waits was never sent: send all of it. What was sent after all is paid twice.
    #[arg(long, conflicts_with = "was_sent")]
    never_sent: bool,
    /// What still waits was sent before the database was restored: close all of it.
    #[arg(long)]
    was_sent: bool,
    /// The time of the restore that is meant, as it was shown. If the database was restored once more since,
    /// the word is refused.
    #[arg(long, value_name = "TIME")]
    restored_at: Option<String>,
    /// Also while it is not known what used some of the nonces from before the restore.
    #[arg(long)]
    force: bool,
}

pub(super) async fn restored(
    args: RestoredArgs,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    let verdict = match (args.never_sent, args.was_sent) {
        (true, _) => Some("never-sent"),
        (_, true) => Some("was-sent"),
        _ => None,
    };
    let known = match verdict {
        Some(verdict) => {
            let mut body = Map::new();
            body.insert("verdict".to_owned(), json!(verdict));
            body.insert("force".to_owned(), json!(args.force));
            if let Some(at) = args.restored_at {
                body.insert("restoredAt".to_owned(), json!(at));
            }
            args.which.post("/restored", body, environment).await?
        }
        None => args.which.get("/restored", &[], environment).await?,
    };
    table::print(&if args.which.server.json { table::json(&known) } else { shown(&known) })
}

fn shown(known: &Value) -> String {
    let list = |name: &str| known[name].as_array().cloned().unwrap_or_default();
    let (waiting, found, unread) = (list("waiting"), list("found"), list("unread"));
    let mut lines = vec![match (&known["restoredAt"], &known["settledAt"]) {
        (Value::Null, _) => {
            "This signer's database was not restored, or all of it is settled.".to_owned()
        }
        (at, Value::Null) => format!(
            "The database was restored ({}): nonces {} to {} were stepped over, and what has no nonce waits.",
            text(at),
            text(&known["fromNonce"]),
            text(&known["toNonce"])
        ),
        (at, settled) => format!(
            "The database was restored ({}), and settled by a person ({}). Only what does the same as a transaction \
             that was found and belongs to nobody waits.",
            text(at),
            text(settled)
        ),
    }];
    if !unread.is_empty() {
        let nonces: Vec<String> = unread.iter().map(text).collect();
        lines.push(format!("Not read from the chain yet: nonces {}.", nonces.join(", ")));
    }
    if known["begun"] == json!(true) && known["settledAt"].is_null() {
        lines.push(format!(
            "The database had lost this signer: what it sent below nonce {} is not read. Look at the account's \
             transactions; --never-sent needs --force.",
            text(&known["fromNonce"])
        ));
    }
    for tx in &found {
        let whose = match &tx["txId"] {
            Value::Null => "belongs to nobody".to_owned(),
            id => format!("was sent for {}", text(id)),
        };
        lines.push(format!(
            "- found at nonce {}: {} ({} wei to {}), {whose}",
            text(&tx["nonce"]),
            text(&tx["txHash"]),
            text(&tx["value"]),
            text(&tx["to"])
        ));
    }
    if waiting.is_empty() {
        lines.push("Nothing waits.".to_owned());
    } else {
        lines.push(format!("{} wait for your word:", waiting.len()));
        lines.extend(waiting.iter().map(|tx| format!("- {}", text(&tx["txId"]))));
        lines.push(format!(
            "Of one: stile tx restored TX_ID --restored-at {} --never-sent (send it) or --was-sent (close it). Of \
             all: the same options here.",
            text(&known["restoredAt"])
        ));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_listed_with_what_can_be_said() {
        let nothing = shown(&json!({ "restoredAt": null, "settledAt": null }));
        assert!(nothing.ends_with("Nothing waits."), "{nothing}");
        let known = json!({
            "restoredAt": "2026-01-01T00:00:00Z", "settledAt": null, "fromNonce": 2, "toNonce": 5, "unread": [4],
            "found": [{ "nonce": 2, "txHash": "0x1", "blockNumber": 3, "to": "0x2", "value": "7", "txId": null }],
            "waiting": [{ "txId": "abc" }],
        });
        let words = shown(&known);
        for part in [
            "nonces 2 to 5",
            "nonces 4.",
            "7 wei to 0x2), belongs to nobody",
            "- abc",
            "--restored-at 2026-01-01T00:00:00Z --never-sent",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
        assert!(!words.contains("needs --force"), "{words}");
        let begun =
            shown(&json!({ "restoredAt": "x", "settledAt": null, "fromNonce": 2, "begun": true }));
        assert!(begun.contains("below nonce 2 is not read"), "{begun}");
    }
}
