//! One signer, from V1 to Stile.
//!
//! ```text
//!   V1's rows are read and their transactions looked up, while V1 goes on
//!   V1 is stopped: its row in stile_cutover says FENCED, committed
//!   the chain's count, and V1's rows once more: nothing is added to them any more
//!   the nonces go into Stile's ledger, the cursor with the last of them      (Stile binds nothing yet)
//!   the lane is Stile's by the list                                          (from here on it does)
//!   V1's row says STILE
//! ```
//!
//! Cut short before the last but one step, nothing has moved, and whoever runs it again begins with the
//! second; after it, only the last is left to do.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;
use stile_domain::v1::V1Lane;
use stile_domain::v1::import::{LaneImport, import};
use stile_domain::{Holder, Lane, LaneEventKind, LaneOwner, Nonce, Rollout};
use stile_store::v1::{Cutover, CutoverState};
use stile_store::{ImportEnd, ImportPart, Imported, OwnerChange};

use super::report::SignerReport;
use super::sightings::Sightings;
use crate::cli::Failure;
use crate::cli::v1::{Account, Parties, persistently};

/// Nonces written by one transaction.
const CHUNK: usize = 2000;

/// Entries of a lane's history in which its import is looked for.
const ENTRIES: u32 = 500;

/// What is known before anything is moved.
pub(super) struct Cutting {
    pub(super) parties: Parties,
    /// How far each signer is, by V1's database.
    pub(super) cutovers: HashMap<String, Cutover>,
    /// And by Stile's.
    pub(super) rollout: Rollout,
    /// Lanes that V1 knows and Stile has begun with by itself.
    pub(super) conflicts: Vec<Lane>,
    /// As whom lanes are made.
    pub(super) holder: Holder,
    pub(super) dry_run: bool,
}

/// How it ended for a signer that could be moved.
enum Moved {
    Now(Value),
    Before(Value),
    Would(Value),
}

impl Cutting {
    pub(super) async fn move_one(&self, account: &Account) -> SignerReport {
        let report = SignerReport::new(&account.signer);
        let lane = match &account.lane {
            Ok(lane) => *lane,
            Err(why) => return report.unmapped(why),
        };
        let report = report.of(lane);
        match self.try_move(&account.signer, lane).await {
            Ok(Moved::Now(data)) => report.moved(data),
            Ok(Moved::Before(data)) => report.moved_before(data),
            Ok(Moved::Would(data)) => report.would_move(data),
            Err(failure) => report.failed(&failure.to_string()),
        }
    }

    async fn try_move(&self, signer: &str, lane: Lane) -> Result<Moved, Failure> {
        let cutover = self.cutovers.get(signer);
        let owner = self.rollout.owners.get(&lane).copied();
        match (cutover.map_or(CutoverState::V1, |cutover| cutover.state), owner) {
            (CutoverState::Stile, _) => {
                let other = cutover.and_then(|cutover| cutover.chain_id);
                if other != Some(lane.chain.get()) {
                    return Err(format!("it has moved to chain {}", other.unwrap_or_default()).into());
                }
                let told = cutover.and_then(|cutover| cutover.report.clone());
                Ok(Moved::Before(told.unwrap_or_default()))
            }
            (CutoverState::Fenced, Some(LaneOwner::Stile)) => {
                let data = self.told(lane).await?;
                if !self.dry_run {
                    self.parties.v1.finish(signer, &data).await?;
                }
                Ok(Moved::Before(data))
            }
            (CutoverState::V1, Some(LaneOwner::Stile)) => Err(
                "it is on Stile's list, and V1 was never stopped: both give out its nonces. Take it off the list \
                 (stile rollout set --remove), then import it"
                    .into(),
            ),
            _ if self.conflicts.contains(&lane) => Err(
                "Stile has given out nonces of this account itself, beside V1. Stop it (stile rollout set --remove), \
                 then import it: what both know is put together"
                    .into(),
            ),
            _ if self.dry_run => {
                let mut sightings = Sightings::default();
                let (_, import) = self.read(signer, lane, &mut sightings).await?;
                Ok(Moved::Would(super::report::data(&import)))
            }
            _ => self.cut_over(signer, lane).await.map(Moved::Now),
        }
    }

    async fn cut_over(&self, signer: &str, lane: Lane) -> Result<Value, Failure> {
        let v1 = &self.parties.v1;
        let mut sightings = Sightings::default();
        self.read(signer, lane, &mut sightings).await?;
        v1.fence(signer, lane).await?;
        let written = async {
            // Once more: now it is all there will be.
            let (_, import) = self.read(signer, lane, &mut sightings).await?;
            let data = super::report::data(&import);
            self.write(lane, &import, &data).await?;
            Ok::<_, Failure>(data)
        };
        let data = match written.await {
            Ok(data) => data,
            // Nobody binds on the lane, so V1 may go on as if nothing had been.
            Err(failure) => {
                v1.lift(signer).await?;
                return Err(failure);
            }
        };
        self.hand_over(lane).await?;
        v1.finish(signer, &data).await?;
        Ok(data)
    }

    /// What V1 knows, held against the chain.
    async fn read(
        &self,
        signer: &str,
        lane: Lane,
        sightings: &mut Sightings,
    ) -> Result<(V1Lane, LaneImport), Failure> {
        let latest: Nonce = self.parties.latest(lane).await?;
        let known = self.parties.v1.lane(signer).await?;
        sightings.look(&self.parties.pool, &known, latest).await?;
        let import = import(lane, &known, latest, |hash| sightings.of(hash))?;
        Ok((known, import))
    }

    async fn write(&self, lane: Lane, import: &LaneImport, data: &Value) -> Result<(), Failure> {
        let Parties { store, node, .. } = &self.parties;
        // Makes the lane's row if there is none. Whoever holds it keeps it.
        persistently(async || store.acquire(&self.holder, &[lane], Duration::ZERO).await).await?;
        let mut parts: Vec<&[_]> = import.nonces.chunks(CHUNK).collect();
        let last = parts.pop().unwrap_or_default();
        let end =
            ImportEnd { cursor: import.cursor, chain_nonce: import.latest, data: data.clone() };
        let parts = parts.into_iter().map(|nonces| (nonces, None)).chain([(last, Some(end))]);
        for (nonces, end) in parts {
            let part = ImportPart { lane, nonces, end };
            let written =
                persistently(async || store.import_lane(node, part.clone()).await).await?;
            if !matches!(written, Imported::Written(_)) {
                return Err(
                    "it became Stile's while it was being moved; nothing was changed".into()
                );
            }
        }
        Ok(())
    }

    /// The step that counts.
    async fn hand_over(&self, lane: Lane) -> Result<(), Failure> {
        let from = [Some(LaneOwner::V1), Some(LaneOwner::Stopped)];
        let change = self.parties.set_owner(&[lane], &from, LaneOwner::Stile).await;
        let again = "V1 is stopped, and Stile may have it already: run it again";
        match change.map_err(|error| format!("{error}. {again}"))?.pop() {
            Some(OwnerChange::Done) => Ok(()),
            _ => Err(format!("the list was changed meanwhile. {again}").into()),
        }
    }

    /// What the lane's history says of its import.
    async fn told(&self, lane: Lane) -> Result<Value, Failure> {
        let history = self.parties.store.lane_history(lane, None, ENTRIES).await?;
        let imported = history.into_iter().find(|entry| entry.kind == LaneEventKind::Imported);
        Ok(imported.map(|entry| entry.data).unwrap_or_default())
    }
}
