//! Holds whose caller never heard of them.
//!
//! A caller may be gone before its answer, and the answer of a commit may be lost together with
//! the database. In both cases the hold's nonce was given to nobody: it goes back, so that it does
//! not become a gap. Holds under an idempotency key are left alone; their caller comes back for
//! them.

use std::sync::{Mutex, PoisonError};

use stile_domain::{HoldId, Lane, Nonce};
use stile_store::{Mark, MarkVerdict, StoreError};

use crate::core::Core;
use crate::metrics;

#[derive(Debug, Default)]
pub(crate) struct Orphans {
    waiting: Mutex<Vec<(Lane, Nonce, HoldId)>>,
}

impl Orphans {
    pub(crate) fn add(&self, lane: Lane, holds: impl IntoIterator<Item = (Nonce, HoldId)>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.extend(holds.into_iter().map(|(nonce, hold)| (lane, nonce, hold)));
    }

    fn take(&self) -> Vec<(Lane, Nonce, HoldId)> {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Core {
    /// Releases what waits. On failure everything waits for the next time.
    pub(crate) async fn release_orphans(&self) {
        let orphans = self.orphans.take();
        if orphans.is_empty() {
            return;
        }
        match self.try_release(&orphans).await {
            Ok(()) => metrics::holds_orphaned(orphans.len()),
            Err(error) => {
                tracing::warn!(%error, "holds without a caller could not be released yet");
                for (lane, nonce, hold) in orphans {
                    self.orphans.add(lane, [(nonce, hold)]);
                }
            }
        }
    }

    async fn try_release(&self, orphans: &[(Lane, Nonce, HoldId)]) -> Result<(), StoreError> {
        for (lane, nonce, hold) in orphans {
            // Behind whatever commit may still be under way for the lane.
            self.store.read_back(*lane, &[(*nonce, *hold)]).await?;
        }
        let reason = "the answer never reached a caller";
        let marks: Vec<Mark> = orphans
            .iter()
            .map(|(lane, nonce, hold)| Mark {
                lane: *lane,
                nonce: *nonce,
                hold: *hold,
                verdict: MarkVerdict::Recyclable(reason.to_owned()),
            })
            .collect();
        self.store.mark(&marks).await?;
        Ok(())
    }
}
