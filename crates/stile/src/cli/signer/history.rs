//! `stile signer history`: what happened to a signer.

use std::collections::HashMap;

use clap::Args;
use serde_json::Value;

use super::Which;
use crate::cli::Failure;
use crate::cli::table::{self, cell, text};

#[derive(Debug, Args)]
pub(in crate::cli) struct HistoryArgs {
    #[command(flatten)]
    which: Which,
    /// At most this many.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: u32,
    /// Go on where an earlier page ended: its `next`.
    #[arg(long)]
    cursor: Option<String>,
}

pub(super) async fn history(
    args: HistoryArgs,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    let mut query = vec![("limit", args.limit.to_string())];
    query.extend(args.cursor.map(|cursor| ("cursor", cursor)));
    let page = args.which.get("/history", &query, environment).await?;
    if args.which.server.json {
        return table::print(&table::json(&page));
    }
    let items = page["items"].as_array().cloned().unwrap_or_default();
    let header = ["WHEN", "WHAT", "NODE", "TOKEN", "MORE"];
    table::print(&table::list(&header, &[3], items.iter().map(row).collect()))?;
    if let Some(next) = page["next"].as_str() {
        eprintln!("more: --cursor {next}");
    }
    Ok(())
}

fn row(event: &Value) -> Vec<String> {
    vec![
        text(&event["at"]),
        text(&event["kind"]),
        text(&event["nodeId"]),
        cell(&event["fencingToken"]),
        more(&event["data"]),
    ]
}

/// What else there is to say, on one line.
fn more(data: &Value) -> String {
    let parts = data.as_object().into_iter().flatten();
    let parts = parts.filter(|(_, value)| !value.is_null());
    let value = |value: &Value| match value {
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join("; "),
        value => text(value),
    };
    parts.map(|(name, it)| format!("{name} {}", value(it))).collect::<Vec<_>>().join(", ")
}
