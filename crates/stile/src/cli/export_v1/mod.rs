//! `stile export-v1`: the way back.
//!
//! | file | what is in it |
//! |---|---|
//! | `give_back` | one signer: see that nothing is open, write V1's rows, let V1 begin |
//! | `report` | what was written |

mod give_back;
mod report;

use std::collections::HashMap;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use stile_domain::{Lane, LaneOwner};

use self::give_back::GivingBack;
use super::v1::{Account, Parties, V1Args};
use super::{Failure, table};

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// V1's database: postgres://user@host/database, or env:NAME or file:PATH with that in it.
    #[arg(long, value_name = "URL")]
    to: String,
    #[command(flatten)]
    v1: V1Args,
}

pub(super) async fn export_v1(
    args: ExportArgs,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    let parties = Parties::meet(&args.to, &args.v1, "export-v1", environment).await?;
    let chosen: Vec<Account> =
        parties.accounts.iter().filter(|it| parties.choice.includes(it)).cloned().collect();
    let giving = GivingBack {
        cutovers: parties.v1.cutovers().await?,
        rollout: parties.store.rollout().await?,
        dry_run: args.v1.dry_run,
        parties,
    };
    if !args.v1.dry_run {
        stop(&giving, &chosen).await?;
    }
    let bar = ProgressBar::new(chosen.len() as u64)
        .with_style(ProgressStyle::with_template("{bar:30} {pos}/{len} signers {elapsed} {msg}")?);
    let mut reports = Vec::with_capacity(chosen.len());
    for account in &chosen {
        reports.push(giving.give_back_one(account).await);
        bar.set_message(account.signer.clone());
        bar.inc(1);
    }
    bar.finish_and_clear();
    giving.parties.store.close().await;
    table::print(&if args.v1.json {
        table::json(&report::json(&reports))
    } else {
        report::shown(&reports)
    })?;
    let refused = reports.iter().filter(|report| report.is_refused()).count();
    if refused > 0 {
        let all = reports.len();
        return Err(
            format!("{refused} of {all} signers stay with Stile; the report says why").into()
        );
    }
    Ok(())
}

/// Stops all lanes that are to go, together. Whatever a node has heard of it: what it accepts from here on
/// asks in its own commit, and what was accepted before is seen by whoever looks now.
async fn stop(giving: &GivingBack, chosen: &[Account]) -> Result<(), Failure> {
    let lanes: Vec<Lane> = giving.to_be_stopped(chosen).collect();
    if lanes.is_empty() {
        return Ok(());
    }
    let from = [Some(LaneOwner::Stile), None];
    giving.parties.set_owner(&lanes, &from, LaneOwner::Stopped).await?;
    Ok(())
}
