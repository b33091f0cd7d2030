//! `stile signer restored`.

use std::collections::HashMap;

use clap::Args;
use serde_json::{Map, Value, json};

use super::Which;
use crate::cli::Failure;
use crate::cli::table::{self, cell, text};

#[derive(Debug, Args)]
pub(in crate::cli) struct RestoredArgs {
    #[command(flatten)]
    which: Which,
    /// All that waits was never sent: send it. What was sent after all is paid twice.
    #[arg(long, conflicts_with = "was_sent")]
    never_sent: bool,
    /// All that waits was sent before the database was restored: close it.
    #[arg(long)]
    was_sent: bool,
    /// The time of the restore that is meant, as it was shown. If the database was restored once more since,
    /// the word is refused.
    #[arg(long, value_name = "TIME")]
    restored_at: Option<String>,
    /// Decide although the chain has not been read, or a pool has something unknown.
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
    table::print(&if args.which.server.json {
        table::json(&known)
    } else {
        shown(&known, &args.which.address)
    })
}

/// So many characters of call data are shown: the function, and a little of what it is called with.
const DATA_SHOWN: usize = 18;

fn shown(known: &Value, signer: &str) -> String {
    let list = |name: &str| known[name].as_array().cloned().unwrap_or_default();
    let (waiting, found, unread) = (list("waiting"), list("found"), list("unread"));
    let unaligned = known["unaligned"] == json!(true);
    if unaligned && (known["restoredAt"].is_null() || !known["settledAt"].is_null()) {
        return "The database was restored or failed over, and this signer has not been held against its chain since. \
                Until then nothing is sent for it, and what waits is not known. It takes seconds once an endpoint \
                answers: look again."
            .to_owned();
    }
    let mut parts = vec![match (&known["restoredAt"], &known["settledAt"]) {
        (Value::Null, _) => "The database of this signer was never restored.".to_owned(),
        (at, Value::Null) => {
            let mut words = format!(
                "The database was restored ({}). Nothing without a nonce is sent by itself: it may have been sent \
                 before.",
                text(at)
            );
            if known["fromNonce"] != known["toNonce"] {
                words.push_str(&format!(
                    "\nNonces from {} to below {} were used since the backup, or may have been. What the chain has there \
                     is listed as found.",
                    text(&known["fromNonce"]),
                    text(&known["toNonce"])
                ));
            }
            words
        }
        (at, settled) => format!(
            "The database was restored ({}), and that was settled ({}). Only what does the same as a transaction that \
             was found and belongs to nobody waits.",
            text(at),
            text(settled)
        ),
    }];
    if !unread.is_empty() {
        let nonces: Vec<String> = unread.iter().map(text).collect();
        parts.push(format!(
            "Not read from the chain yet: nonces {}. Wait for it before you decide.",
            nonces.join(", ")
        ));
    }
    if known["begun"] == json!(true) && known["settledAt"].is_null() {
        parts.push(format!(
            "The database had lost this signer: what it sent below nonce {} is not read. Look at the account's \
             transactions; --never-sent needs --force.",
            text(&known["fromNonce"])
        ));
    }
    if let Value::Object(pooled) = &known["pooled"] {
        parts.push(format!(
            "{} has transactions of this signer in its pool that the database does not know (nonces from {} to below \
             {}). They may be what waits. Wait until they are mined or gone before you decide.",
            text(&pooled["endpoint"]),
            text(&pooled["fromNonce"]),
            text(&pooled["toNonce"])
        ));
    }
    if !found.is_empty() {
        let header = ["NONCE", "HASH", "TO", "VALUE", "DATA", "SENT FOR"];
        let rows = found.iter().map(|tx| {
            let whose = match &tx["txId"] {
                Value::Null => "nobody".to_owned(),
                id => text(id),
            };
            let (nonce, hash) = (cell(&tx["nonce"]), cell(&tx["txHash"]));
            vec![nonce, hash, cell(&tx["to"]), wei(&tx["value"]), data(&tx["data"]), whose]
        });
        parts.push(format!("Found on chain:\n{}", table::list(&header, &[0, 3], rows.collect())));
    }
    let at = text(&known["restoredAt"]);
    if waiting.is_empty() {
        parts.push("Nothing waits.".to_owned());
        if !known["restoredAt"].is_null() && known["settledAt"].is_null() {
            parts.push(format!(
                "Whatever is handed over from now on waits for your word as well, until you settle the restore:\n  \
                   stile signer restored {signer} --restored-at {at} --never-sent"
            ));
        }
        return parts.join("\n\n");
    }
    let header = ["TX ID", "REQUEST ID", "TO", "VALUE", "DATA", "ACCEPTED", "WHY IT WAITS"];
    let rows = waiting.iter().map(|tx| {
        let payload = &tx["payload"];
        vec![
            cell(&tx["txId"]),
            cell(&tx["requestId"]),
            cell(&payload["to"]),
            wei(&payload["value"]),
            data(&payload["data"]),
            cell(&tx["createdAt"]),
            cell(&tx["why"]),
        ]
    });
    parts.push(format!(
        "{} wait for your word:\n{}",
        waiting.len(),
        table::list(&header, &[3], rows.collect())
    ));
    parts.push(format!(
        "Find out from whoever was to be paid, then say of each:\n  \
           stile tx restored TX_ID --restored-at {at} --never-sent    it was never sent: send it\n  \
           stile tx restored TX_ID --restored-at {at} --was-sent      it was sent: close it\n\
         The same options here mean all of them; --never-sent also settles the restore, so that new requests are \
         sent at once again. What was sent and is said to be never sent is paid twice."
    ));
    parts.join("\n\n")
}

fn wei(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        value => format!("{} wei", text(value)),
    }
}

/// The beginning of call data, and how long it is.
fn data(value: &Value) -> String {
    let all = text(value);
    match all.strip_prefix("0x").map_or(0, str::len) / 2 {
        0 => "-".to_owned(),
        bytes if all.len() > DATA_SHOWN => {
            format!("{}… ({bytes} bytes)", &all[..DATA_SHOWN])
        }
        _ => all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hole_20_what_waits_is_listed_with_all_that_a_person_needs_to_decide() {
        let nothing = shown(&json!({ "restoredAt": null, "settledAt": null }), "0x9");
        assert!(nothing.ends_with("Nothing waits."), "{nothing}");
        let open = shown(&json!({ "restoredAt": "2026-01-01", "settledAt": null }), "0x9");
        assert!(open.ends_with("restored 0x9 --restored-at 2026-01-01 --never-sent"), "{open}");
        let not_yet =
            shown(&json!({ "restoredAt": null, "settledAt": null, "unaligned": true }), "0x9");
        assert!(not_yet.ends_with("look again."), "{not_yet}");
        let known = json!({
            "restoredAt": "2026-01-01T00:00:00Z", "settledAt": null, "fromNonce": 2, "toNonce": 5, "unread": [4],
            "pooled": { "endpoint": "rpc:1", "fromNonce": 5, "toNonce": 6 },
            "found": [{ "nonce": 2, "txHash": "0x1", "blockNumber": 3, "to": "0x2", "value": "7", "data": "0x",
                        "txId": null }],
            "waiting": [{ "txId": "abc", "requestId": "invoice-9", "createdAt": "2025-12-31T23:59:59Z",
                          "why": "it was in the backup",
                          "payload": { "to": "0x3", "value": "8", "data": format!("0xa9059cbb{}", "0".repeat(128)) } }],
        });
        let words = shown(&known, "0x9");
        for part in [
            "from 2 to below 5",
            "nonces 4.",
            "rpc:1 has transactions",
            "nobody",
            "7 wei",
            "abc",
            "invoice-9",
            "0x3",
            "8 wei",
            "0xa9059cbb00000000… (68 bytes)",
            "2025-12-31T23:59:59Z",
            "it was in the backup",
            "--restored-at 2026-01-01T00:00:00Z --never-sent",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
        assert!(!words.contains("needs --force"), "{words}");
        let begun = shown(
            &json!({ "restoredAt": "x", "settledAt": null, "fromNonce": 2, "begun": true }),
            "0x9",
        );
        assert!(begun.contains("below nonce 2 is not read"), "{begun}");
    }

    #[test]
    fn data_is_shown_in_part() {
        for (all, shown) in [("0x", "-"), ("0x12345678", "0x12345678"), ("", "-")] {
            assert_eq!(data(&json!(all)), shown);
        }
        assert_eq!(data(&Value::Null), "-");
    }
}
