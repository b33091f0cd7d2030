//! Why a lane does not move, and mending it.
//!
//! | file | what is in it |
//! |---|---|
//! | `facts` | everything there is to know about a lane at this moment |
//! | `gather` | where the facts come from |
//! | `diagnose` | from facts to plain words: pure |
//! | `repair` | carrying out what the words propose |
//! | `restored` | a person's word about what waits after a restore |
//! | `resume` | ending a pause, with the lane in step with its chain again |
//!
//! Any node can be asked. What only the lane's holder can do is done by the holder; asked on
//! another node, the answer names it.

mod diagnose;
mod facts;
mod gather;
mod repair;
pub(crate) mod restored;
mod resume;

use std::sync::Arc;

use stile_domain::{Lane, Nonce, TxId};
use stile_store::{LaneEvent, StoreError, StreamPosition, Tx};

pub use self::diagnose::{Diagnosis, Finding, Remedy, Severity};
pub use self::facts::{
    AgreementFacts, AttemptFacts, HeadFacts, HoldFacts, HolderFacts, LaneFacts, RestoredFacts,
    TxFacts, UnestimatedFacts,
};
pub use self::repair::{Repair, RepairStep};
pub use self::restored::{Pooled, Restoration, RestoreError, Settled, Verdict, Word};
pub use self::resume::Resumption;
use crate::core::Core;
use crate::reconcile::{self, Mismatch};

/// Looks after lanes, for people.
#[derive(Debug, Clone)]
pub struct LaneCare {
    core: Arc<Core>,
}

/// Why nothing can be said or done about a lane.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CareError {
    /// Nobody ever asked for one of its nonces.
    #[error("no nonce of this signer was ever asked for")]
    NotStarted,
    /// No endpoint of the chain answers, so there is nothing to compare with.
    #[error("no endpoint of the chain answers")]
    ChainSilent,
    /// The store does not say.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl LaneCare {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// Why a lane does not move, in plain words, with what to do about it.
    pub async fn doctor(&self, lane: Lane) -> Result<Diagnosis, CareError> {
        Ok(diagnose::diagnose(gather::gather(&self.core, lane).await?))
    }

    /// The plan to mend a lane, and with `apply` its result. Nonces in `attest` are those of silent
    /// callers of which a person says that they were never sent.
    pub async fn repair(
        &self,
        lane: Lane,
        apply: bool,
        attest: &[Nonce],
    ) -> Result<Repair, CareError> {
        repair::repair(&self.core, lane, apply, attest).await
    }

    /// Ends a pause, with the lane in step with its chain again. With `dry_run` only what would be
    /// done is told.
    pub async fn resume(&self, lane: Lane, dry_run: bool) -> Result<Resumption, CareError> {
        resume::resume(&self.core, lane, dry_run).await
    }

    /// What is known of a restore of the database on a lane, and what waits because of it.
    pub async fn restored(&self, lane: Lane) -> Result<Restoration, StoreError> {
        restored::restoration(&self.core, lane).await
    }

    /// A person's word about everything that waits on a lane because the database was restored. With
    /// `force` also while it is not known what used some of the nonces.
    pub async fn settle_restored(
        &self,
        lane: Lane,
        word: Word<'_>,
    ) -> Result<Settled, RestoreError> {
        restored::say_of_lane(&self.core, lane, word).await
    }

    /// A person's word about one transaction that waits because the database was restored. With
    /// `force` also while it is not known what used some of the nonces.
    pub async fn settle_restored_tx(&self, tx: TxId, word: Word<'_>) -> Result<Tx, RestoreError> {
        restored::say_of_tx(&self.core, tx, word).await
    }

    /// Compares a lane with its chain now.
    pub async fn reconcile(&self, lane: Lane) -> Result<Vec<Mismatch>, CareError> {
        let Some(track) = self.core.tracks.get(lane.chain) else {
            return Err(CareError::ChainSilent);
        };
        let compared =
            reconcile::compare(&self.core, track, &[lane]).await.ok_or(CareError::ChainSilent)?;
        if compared.is_empty() {
            return Err(CareError::NotStarted);
        }
        let found: Vec<Mismatch> =
            compared.iter().filter_map(|comparison| comparison.mismatch()).collect();
        for mismatch in &found {
            crate::metrics::mismatch(mismatch.kind);
        }
        Ok(found)
    }

    /// A lane's history, newest first.
    pub async fn history(
        &self,
        lane: Lane,
        before: Option<StreamPosition>,
        limit: u32,
    ) -> Result<Vec<LaneEvent>, CareError> {
        Ok(self.core.store.lane_history(lane, before, limit).await?)
    }
}
