//! `stile import-v1`: signers that V1 served become Stile's, one by one.
//!
//! | file | what is in it |
//! |---|---|
//! | `cutover` | one signer: stop V1, read, hold against the chain, write, let Stile begin |
//! | `sightings` | what the endpoints know of the transactions that V1 names |
//! | `report` | what became of each nonce |
//!
//! Run again, it goes on where it was cut short, and leaves alone what has moved.

mod cutover;
mod report;
mod sightings;

use std::collections::HashMap;

use clap::Args;
use futures::StreamExt;
use indicatif::{ProgressBar, ProgressStyle};
use stile_domain::{Holder, Incarnation, Lane, LaneOwner};
use stile_store::OwnerChange;

use self::cutover::Cutting;
use self::report::{Outcome, SignerReport};
use super::v1::{AT_ONCE, Account, Parties, V1Args};
use super::{Failure, table};

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// V1's database: postgres://user@host/database, or env:NAME or file:PATH with that in it.
    #[arg(long, value_name = "URL")]
    from: String,
    #[command(flatten)]
    v1: V1Args,
}

pub(super) async fn import_v1(
    args: ImportArgs,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    let parties = Parties::meet(&args.from, &args.v1, "import-v1", environment).await?;
    let conflicts = if args.v1.dry_run { Vec::new() } else { announce(&parties).await? };
    let cutting = Cutting {
        cutovers: parties.v1.cutovers().await?,
        rollout: parties.store.rollout().await?,
        conflicts,
        holder: Holder { node: parties.node.clone(), incarnation: Incarnation::fresh(), url: None },
        dry_run: args.v1.dry_run,
        parties,
    };
    let chosen: Vec<Account> = cutting
        .parties
        .accounts
        .iter()
        .filter(|account| cutting.parties.choice.includes(account))
        .cloned()
        .collect();
    let bar = ProgressBar::new(chosen.len() as u64)
        .with_style(ProgressStyle::with_template("{bar:30} {pos}/{len} signers {elapsed} {msg}")?);
    let mut reports: Vec<SignerReport> = futures::stream::iter(chosen)
        .map(|account| {
            let (cutting, bar) = (&cutting, &bar);
            async move {
                let report = cutting.move_one(&account).await;
                bar.set_message(account.signer);
                bar.inc(1);
                report
            }
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    bar.finish_and_clear();
    cutting.parties.store.close().await;
    reports.sort_by(|one, other| one.signer.cmp(&other.signer));
    table::print(&if args.v1.json {
        table::json(&report::json(&reports))
    } else {
        report::shown(&reports)
    })?;
    let failed = reports.iter().filter(|report| report.outcome == Outcome::Failed).count();
    if failed > 0 {
        let all = reports.len();
        return Err(format!(
            "{failed} of {all} signers were not moved; run it again once the reasons are gone"
        )
        .into());
    }
    Ok(())
}

/// Before anything is moved: V1's tables get their stop-fence, still open, and Stile learns which lanes
/// are V1's, so that it begins with none of them by itself. Answers with those that it has begun with.
async fn announce(parties: &Parties) -> Result<Vec<Lane>, Failure> {
    const CHUNK: usize = 1000;
    parties.v1.install().await?;
    let mut conflicts = Vec::new();
    for lanes in parties.accounts.lanes().chunks(CHUNK) {
        let changes = parties.set_owner(lanes, &[None], LaneOwner::V1).await?;
        let started = lanes.iter().zip(changes);
        conflicts
            .extend(started.filter(|(_, it)| *it == OwnerChange::Started).map(|(lane, _)| *lane));
    }
    Ok(conflicts)
}
