//! Calls that wait for the chain, or for a signer elsewhere.
//!
//! Such a question may take long, so it is asked beside the workers: calls for the lane
//! wait here, calls for its neighbours do not. Once it is answered they are served as if they had
//! just come.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};

use crate::allocate::{Allocate, allocate};
use crate::core::Core;
use crate::error::NonceError;
use crate::lanes::Slot;
use crate::start;
use crate::task;

/// Calls that may wait for one lane.
const WAITING_LIMIT: usize = 10_000;

/// The longest callers step aside for transactions that wait for their signatures.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// Where a new lane starts.
    FirstCursor,
    /// Whether released nonces are still unused.
    Released,
    /// What a signer elsewhere says, for transactions that have been overtaken before.
    Signatures,
}

/// Lets calls wait for an answer about their lane, and sees to it that somebody asks.
pub(crate) fn park(core: &Arc<Core>, slot: &Arc<Slot>, question: Question, calls: Vec<Allocate>) {
    match &mut *parked(slot) {
        Some(waiting) => {
            for call in calls {
                if waiting.len() < WAITING_LIMIT {
                    waiting.push(call);
                } else {
                    call.fail(NonceError::QueueFull);
                }
            }
        }
        nobody @ None => {
            *nobody = Some(calls);
            core.tasks.spawn(task::PARK, run(Arc::clone(core), Arc::clone(slot), question));
        }
    }
}

fn parked(slot: &Slot) -> MutexGuard<'_, Option<Vec<Allocate>>> {
    slot.parked.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Boxed, because the calls it wakes go through `allocate` again.
fn run(core: Arc<Core>, slot: Arc<Slot>, question: Question) -> BoxFuture<'static, ()> {
    async move {
        let outcome = match question {
            Question::FirstCursor => start::start(&core, &slot).await,
            Question::Released => {
                look_again(&core, &slot).await;
                Ok(())
            }
            Question::Signatures => {
                let mut reserved = slot.reserved.subscribe();
                let _ = tokio::time::timeout(PATIENCE, reserved.wait_for(|held| !held)).await;
                Ok(())
            }
        };
        let mut waiting = parked(&slot).take().unwrap_or_default();
        match outcome {
            Ok(()) => {
                for call in &mut waiting {
                    call.looked |= question == Question::Released;
                    call.stepped_aside |= question == Question::Signatures;
                }
                allocate(&core, waiting).await;
            }
            Err(error) => waiting.into_iter().for_each(|call| call.fail(error.clone())),
        }
    }
    .boxed()
}

/// Asks about released nonces. If the answer takes too long, nothing stays on offer and the calls
/// get fresh ones; the answer counts when it comes.
async fn look_again(core: &Arc<Core>, slot: &Slot) {
    if !core.refreshed(slot.lane()).await {
        slot.work.lock().await.withdraw();
    }
}
