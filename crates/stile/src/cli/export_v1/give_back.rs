//! One signer, from Stile to V1.
//!
//! ```text
//!   the lane is stopped: Stile binds and accepts nothing on it any more
//!   is anything open that V1 could not know? then it goes on here, and that was all
//!   V1's rows, its next nonce, and its row in stile_cutover, in one commit       (from here on V1 writes)
//!   the lane is V1's by Stile's list
//! ```

use std::collections::HashMap;

use stile_domain::v1::export::{LaneExport, LedgerNonce, OpenWork, export};
use stile_domain::{Lane, LaneOwner, Rollout};
use stile_store::OwnerChange;
use stile_store::v1::{Cutover, CutoverState};

use super::report::SignerReport;
use crate::cli::Failure;
use crate::cli::v1::{Account, Parties, persistently};

/// Rows of the ledger read at a time.
const PAGE: u32 = 5000;

/// What is known before anything goes back.
pub(super) struct GivingBack {
    pub(super) parties: Parties,
    pub(super) cutovers: HashMap<String, Cutover>,
    pub(super) rollout: Rollout,
    pub(super) dry_run: bool,
}

/// Where a signer stands between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// V1 has it.
    WithV1,
    /// V1 was stopped, and Stile never got it: only the fence is to be lifted.
    Fenced,
    /// V1 has it, and Stile's list does not say so yet.
    Given,
    /// Stile has it, or had it until it was stopped.
    WithStile,
}

impl GivingBack {
    fn place(&self, signer: &str, lane: Lane) -> Place {
        let state = self.cutovers.get(signer).map_or(CutoverState::V1, |cutover| cutover.state);
        match (state, self.rollout.owners.get(&lane)) {
            (CutoverState::V1, Some(LaneOwner::Stopped)) => Place::Given,
            (CutoverState::V1, _) => Place::WithV1,
            (CutoverState::Fenced, Some(LaneOwner::V1)) => Place::Fenced,
            (CutoverState::Fenced | CutoverState::Stile, _) => Place::WithStile,
        }
    }

    /// The lanes that Stile has.
    pub(super) fn to_be_stopped(&self, chosen: &[Account]) -> impl Iterator<Item = Lane> {
        chosen.iter().filter_map(|account| {
            let lane = account.lane.clone().ok()?;
            (self.place(&account.signer, lane) == Place::WithStile).then_some(lane)
        })
    }

    pub(super) async fn give_back_one(&self, account: &Account) -> SignerReport {
        let signer = &account.signer;
        let lane = match &account.lane {
            Ok(lane) => *lane,
            Err(why) => return SignerReport::unknown(signer, why),
        };
        let done = match self.place(signer, lane) {
            Place::WithV1 => return SignerReport::with_v1(signer, lane),
            Place::Fenced => self.lift(signer, lane).await,
            Place::Given => self.take_off_the_list(signer, lane).await,
            Place::WithStile => self.give_back(signer, lane).await,
        };
        done.unwrap_or_else(|failure| SignerReport::refused(signer, lane, &failure.to_string()))
    }

    async fn lift(&self, signer: &str, lane: Lane) -> Result<SignerReport, Failure> {
        if !self.dry_run {
            self.parties.v1.lift(signer).await?;
        }
        Ok(SignerReport::lifted(signer, lane))
    }

    async fn take_off_the_list(&self, signer: &str, lane: Lane) -> Result<SignerReport, Failure> {
        if !self.dry_run {
            self.now_v1s(lane).await?;
        }
        Ok(SignerReport::with_v1(signer, lane))
    }

    async fn give_back(&self, signer: &str, lane: Lane) -> Result<SignerReport, Failure> {
        let export = match self.look(signer, lane).await {
            Ok(export) => export,
            Err(failure) => {
                self.go_on_here(lane).await?;
                return Err(failure);
            }
        };
        if self.dry_run {
            return Ok(SignerReport::would_go(signer, lane, &export));
        }
        let written = self.parties.v1.give_back(signer, &export).await.map_err(|error| {
            format!("{error}. The lane is stopped: run it again, or let Stile go on (stile rollout set --add)")
        })?;
        self.now_v1s(lane).await?;
        Ok(SignerReport::gone(signer, lane, &export, written))
    }

    /// What V1 would be given, if nothing stands against it.
    async fn look(&self, signer: &str, lane: Lane) -> Result<LaneExport, Failure> {
        let Parties { store, v1, .. } = &self.parties;
        let view = store.lanes(&[lane]).await?.pop().flatten();
        let view = view.ok_or("Stile has no such lane")?;
        let latest = self.parties.latest(lane).await?;
        let ledger = self.ledger(lane).await?;
        let known = v1.lane(signer).await?;
        let cursor = view.next_nonce.unwrap_or(0);
        let open = OpenWork { queued: view.queued, in_flight: view.in_flight };
        Ok(export(lane, &ledger, cursor, open, latest, &known)?)
    }

    async fn ledger(&self, lane: Lane) -> Result<Vec<LedgerNonce>, Failure> {
        let store = &self.parties.store;
        let (mut ledger, mut from) = (Vec::new(), 0);
        loop {
            let page = persistently(async || store.ledger(lane, from, PAGE).await).await?;
            let last = page.last().map(|row| row.nonce);
            let more = page.len() == PAGE as usize;
            ledger.extend(page);
            match last {
                Some(last) if more => from = last + 1,
                _ => return Ok(ledger),
            }
        }
    }

    /// Lets Stile go on, unless the lane was stopped before this began.
    async fn go_on_here(&self, lane: Lane) -> Result<(), Failure> {
        let was_stopped = self.rollout.owners.get(&lane) == Some(&LaneOwner::Stopped);
        if !self.dry_run && !was_stopped {
            let from = [Some(LaneOwner::Stopped)];
            self.parties.set_owner(&[lane], &from, LaneOwner::Stile).await?;
        }
        Ok(())
    }

    async fn now_v1s(&self, lane: Lane) -> Result<(), Failure> {
        let from = [Some(LaneOwner::Stopped)];
        let change = self.parties.set_owner(&[lane], &from, LaneOwner::V1).await;
        let again = "V1 has it, and Stile's list does not say so yet: run it again";
        match change.map_err(|error| format!("{error}. {again}"))?.pop() {
            Some(OwnerChange::Done) => Ok(()),
            _ => Err(format!("the list was changed meanwhile. {again}").into()),
        }
    }
}
