//! `stile signer list` and `stile signer show`.

use std::collections::HashMap;

use clap::Args;
use serde_json::{Value, json};

use super::Which;
use crate::cli::Failure;
use crate::cli::client::{Client, ServerArgs};
use crate::cli::table::{self, cell, text};

#[derive(Debug, Args)]
pub(in crate::cli) struct ListArgs {
    /// Only this chain's.
    #[arg(long)]
    chain_id: Option<u64>,
    #[command(flatten)]
    server: ServerArgs,
}

pub(super) async fn list(
    args: ListArgs,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    let signers = all(&args.server.client(environment)?, args.chain_id).await?;
    table::print(&if args.server.json { table::json(&signers) } else { listed(&signers) })
}

pub(super) async fn show(
    which: Which,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    let signer = which.get("", &[], environment).await?;
    table::print(&if which.server.json { table::json(&signer) } else { shown(&signer) })
}

/// All pages as one.
async fn all(client: &Client, chain_id: Option<u64>) -> Result<Value, Failure> {
    let mut items = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut query = vec![("limit", "500".to_owned())];
        query.extend(chain_id.map(|id| ("chainId", id.to_string())));
        query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let page = client.get("/api/v1/signers", &query).await?;
        items.extend(page["items"].as_array().cloned().unwrap_or_default());
        match page["next"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => return Ok(json!({ "items": items, "next": null })),
        }
    }
}

const COLUMNS: [(&str, &str); 10] = [
    ("SIGNER", "signer"),
    ("CHAIN", "chainId"),
    ("HOLDER", "ownerNode"),
    ("TOKEN", "fencingToken"),
    ("NEXT", "nextNonce"),
    ("ON CHAIN", "chainNonce"),
    ("IN FLIGHT", "inFlight"),
    ("QUEUED", "queued"),
    ("PAUSED", "paused"),
    ("ELSEWHERE", "elsewhere"),
];

fn listed(signers: &Value) -> String {
    let items = signers["items"].as_array().cloned().unwrap_or_default();
    let rows = items.iter().map(|signer| COLUMNS.map(|(_, name)| cell(&signer[name])).to_vec());
    table::list(&COLUMNS.map(|(title, _)| title), &[1, 3, 4, 5, 6, 7], rows.collect())
}

pub(super) fn shown(signer: &Value) -> String {
    let gaps = signer["gaps"].as_array().cloned().unwrap_or_default();
    let gaps = gaps.iter().map(text).collect::<Vec<_>>().join(", ");
    table::details(vec![
        ("signer", text(&signer["signer"])),
        ("chain", text(&signer["chainId"])),
        ("holder", cell(&signer["ownerNode"])),
        ("holder's URL", text(&signer["ownerUrl"])),
        ("fencing token", text(&signer["fencingToken"])),
        ("lease until", text(&signer["expiresAt"])),
        ("next nonce", cell(&signer["nextNonce"])),
        ("chain's nonce", cell(&signer["chainNonce"])),
        ("in flight", text(&signer["inFlight"])),
        ("queued", text(&signer["queued"])),
        ("held", text(&signer["held"])),
        ("suspect", text(&signer["suspect"])),
        ("gaps", gaps),
        ("paused", text(&signer["paused"])),
        ("elsewhere", text(&signer["elsewhere"])),
    ])
}
