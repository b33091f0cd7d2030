//! `stile tx restored`.

use std::collections::HashMap;

use clap::Args;
use serde_json::json;

use super::show;
use crate::cli::Failure;
use crate::cli::client::ServerArgs;
use crate::cli::table;

#[derive(Debug, Args)]
#[group(skip)]
pub(in crate::cli) struct RestoredArgs {
    /// The transaction's id, as `stile signer restored` lists it.
    #[arg(value_name = "TX_ID")]
    id: String,
    #[command(flatten)]
    word: WordArgs,
    /// The time of the restore that is meant, as `stile signer restored` shows it. If the database was
    /// restored once more since, the word is refused.
    #[arg(long, value_name = "TIME")]
    restored_at: Option<String>,
    /// Decide although the chain has not been read, or a pool has something unknown.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// One of the two has to be said.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct WordArgs {
    /// It was sent before the database was restored: close it.
    #[arg(long)]
    was_sent: bool,
    /// It was never sent: send it. If it was, it is paid twice.
    #[arg(long)]
    never_sent: bool,
}

pub(super) async fn restored(
    args: RestoredArgs,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    let client = args.server.client(environment)?;
    let verdict = if args.word.never_sent { "never-sent" } else { "was-sent" };
    let path = format!("{}/restored", show::path(&args.id));
    let mut body = json!({ "verdict": verdict, "force": args.force });
    if let Some(at) = args.restored_at {
        body["restoredAt"] = json!(at);
    }
    let tx = client.post(&path, &body).await?;
    if args.server.json {
        return table::print(&table::json(&tx));
    }
    show::print(&tx, false)
}
