//! `stile tx get` and `stile tx list`.

use std::collections::HashMap;

use clap::Args;
use serde_json::Value;

use crate::cli::Failure;
use crate::cli::client::{ServerArgs, encoded};
use crate::cli::table::{self, cell, text};

#[derive(Debug, Args)]
pub(in crate::cli) struct GetArgs {
    /// The transaction's id, as `stile tx send` printed it.
    #[arg(value_name = "TX_ID")]
    id: String,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ListArgs {
    /// Only this account's.
    #[arg(long, value_name = "ADDRESS")]
    signer: Option<String>,
    /// Only this chain's.
    #[arg(long)]
    chain_id: Option<u64>,
    /// Only those that stand so: CREATED, ALLOCATED, SUBMITTED, TRACKING, CONFIRMED or FAILED.
    #[arg(long, ignore_case = true, value_parser = ["CREATED", "ALLOCATED", "SUBMITTED", "TRACKING", "CONFIRMED", "FAILED"])]
    state: Option<String>,
    /// At most this many.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: u32,
    /// Go on where an earlier list ended: its `next`.
    #[arg(long)]
    cursor: Option<u64>,
    #[command(flatten)]
    server: ServerArgs,
}

pub(super) async fn get(
    args: GetArgs,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    let client = args.server.client(environment)?;
    let tx = client.get(&path(&args.id), &[]).await?;
    print(&tx, args.server.json)
}

/// The path of a transaction.
pub(super) fn path(id: &str) -> String {
    format!("/api/v1/tx/{}", encoded(id))
}

pub(super) async fn list(
    args: ListArgs,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    let mut query = vec![("limit", args.limit.to_string())];
    query.extend(args.signer.map(|signer| ("signer", signer)));
    query.extend(args.chain_id.map(|id| ("chainId", id.to_string())));
    query.extend(args.state.map(|state| ("state", state.to_uppercase())));
    query.extend(args.cursor.map(|cursor| ("cursor", cursor.to_string())));
    let page = args.server.client(environment)?.get("/api/v1/tx", &query).await?;
    if args.server.json {
        return table::print(&table::json(&page));
    }
    let items = page["items"].as_array().cloned().unwrap_or_default();
    let header = [
        "TX",
        "SIGNER",
        "NONCE",
        "STATE",
        "WAITS FOR",
        "HASH",
        "BLOCK",
        "CONFIRMATIONS",
        "UPDATED",
    ];
    table::print(&table::list(&header, &[2, 6, 7], items.iter().map(row).collect()))?;
    if let Some(next) = page["next"].as_u64() {
        eprintln!("more: --cursor {next}");
    }
    Ok(())
}

fn row(tx: &Value) -> Vec<String> {
    vec![
        text(&tx["txId"]),
        text(&tx["signer"]),
        cell(&tx["nonce"]),
        standing(tx),
        cell(&tx["waitingFor"]["code"]),
        cell(&tx["txHash"]),
        cell(&tx["receipt"]["blockNumber"]),
        confirmations(tx),
        text(&tx["updatedAt"]),
    ]
}

/// State, and what there is to say about it.
pub(super) fn standing(tx: &Value) -> String {
    match tx["subState"].as_str() {
        Some(sub_state) if sub_state != "PENDING" => format!("{}/{sub_state}", text(&tx["state"])),
        _ => text(&tx["state"]),
    }
}

/// How many of how many.
pub(super) fn confirmations(tx: &Value) -> String {
    let reached = if tx["receipt"].is_null() { "-".to_owned() } else { text(&tx["confirmations"]) };
    match tx["finality"]["confirmations"].as_u64() {
        Some(wanted) => format!("{reached}/{wanted}"),
        None => format!("{reached} ({})", text(&tx["finality"])),
    }
}

/// One transaction, for people or for programs.
pub(super) fn print(tx: &Value, json: bool) -> Result<(), Failure> {
    table::print(&if json { table::json(tx) } else { details(tx) })
}

fn details(tx: &Value) -> String {
    let (payload, receipt) = (&tx["payload"], &tx["receipt"]);
    let data = text(&payload["data"]);
    let data = match data.len() {
        0..=2 => String::new(),
        3..=74 => data,
        length => format!("{}… ({} bytes)", data.get(..66).unwrap_or(&data), (length - 2) / 2),
    };
    let wei = |price: &Value| price.as_str().map(|wei| format!("{wei} wei")).unwrap_or_default();
    table::details(vec![
        ("tx", text(&tx["txId"])),
        ("request id", text(&tx["requestId"])),
        ("chain", text(&tx["chainId"])),
        ("signer", text(&tx["signer"])),
        ("to", text(&payload["to"])),
        ("value", format!("{} wei", text(&payload["value"]))),
        ("data", data),
        ("fee limit", wei(&payload["feeLimit"])),
        ("nonce", cell(&tx["nonce"])),
        ("state", standing(tx)),
        ("waits for", text(&tx["waitingFor"]["words"])),
        ("outcome", text(&tx["outcome"])),
        ("error", text(&tx["error"])),
        ("asked for", text(&tx["wish"])),
        ("nonce taken by", rival(&tx["rival"])),
        ("replaces", text(&tx["replaces"])),
        ("replaced by", text(&tx["replacedBy"])),
        ("hash", text(&tx["txHash"])),
        ("block", text(&receipt["blockNumber"])),
        ("block hash", text(&receipt["blockHash"])),
        ("confirmations", confirmations(tx)),
        ("gas limit", text(&tx["gasLimit"])),
        ("gas used", text(&receipt["gasUsed"])),
        ("gas price", wei(&receipt["effectiveGasPrice"])),
        ("contract", text(&receipt["contractAddress"])),
        ("taken", text(&tx["createdAt"])),
        ("first sent", text(&tx["firstSubmitAt"])),
        ("last sent", text(&tx["lastSubmitAt"])),
        ("sent again at", text(&tx["nextResubmitAt"])),
        ("confirmed", text(&tx["confirmedAt"])),
    ])
}

/// Who took its nonce, and where.
fn rival(rival: &Value) -> String {
    if rival.is_null() {
        return String::new();
    }
    let whose = match rival["by"].as_str() {
        Some("cancel") => "its cancellation",
        Some("give-up") => "an empty one of Stile's, as chain nodes refuse it",
        _ => "somebody else's transaction",
    };
    let hash = rival["txHash"].as_str().map(|hash| format!(", {hash}")).unwrap_or_default();
    format!("{whose}{hash} in block {}", text(&rival["blockNumber"]))
}
