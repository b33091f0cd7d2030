//! `stile chain check`.

use std::time::Duration;

use clap::Args;
use serde_json::Value;
use stile_chain::NodeCheck;
use stile_domain::{ChainId, Secret};

use super::show::{capabilities, seconds};
use crate::cli::Failure;
use crate::cli::client::take;
use crate::cli::table::{self, cell, text};

#[derive(Debug, Args)]
pub(in crate::cli) struct CheckArgs {
    /// The node: http, https, ws or wss; http if no scheme is given.
    #[arg(value_name = "URL", value_parser = take)]
    url: Secret,
    /// The chain that it should serve.
    #[arg(long)]
    chain_id: Option<u64>,
    /// How long each answer is waited for, in seconds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=300))]
    timeout: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) async fn check(args: CheckArgs) -> Result<(), Failure> {
    let expected = args.chain_id.map(ChainId::new).transpose();
    let expected = expected.map_err(|error| format!("--chain-id {error}"))?;
    let timeout = Duration::from_secs(args.timeout);
    let checked = stile_chain::check(args.url.reveal(), expected, timeout).await?;
    let told = serde_json::to_value(&checked)?;
    table::print(&if args.json { table::json(&told) } else { shown(&told) })?;
    verdict(&checked)
}

/// Whether Stile can work with it, which is also how the command ends.
fn verdict(checked: &NodeCheck) -> Result<(), Failure> {
    match checked.works {
        true => Ok(()),
        false => {
            let reasons = checked.reasons.join("\n  ");
            Err(format!("Stile cannot work with {}:\n  {reasons}", checked.endpoint).into())
        }
    }
}

fn shown(checked: &Value) -> String {
    let mut parts = vec![table::details(vec![
        ("endpoint", text(&checked["endpoint"])),
        ("Stile can work with it", if checked["works"] == true { "yes" } else { "no" }.to_owned()),
        ("chain", cell(&checked["chainId"])),
        ("node", cell(&checked["clientVersion"])),
        ("head", cell(&checked["head"])),
        ("head's age", seconds(&checked["headAgeSeconds"])),
        ("block time", seconds(&checked["blockTimeSeconds"])),
    ])];
    if checked["capabilities"].as_array().is_some_and(|rows| !rows.is_empty()) {
        parts.push(capabilities(&checked["capabilities"]));
    }
    let remarks = checked["remarks"].as_array().cloned().unwrap_or_default();
    if !remarks.is_empty() {
        let lines = remarks.iter().map(|remark| format!("note: {}", text(remark)));
        parts.push(lines.collect::<Vec<_>>().join("\n"));
    }
    parts.join("\n\n")
}
