//! Allocations that wait for their turn are committed together.
//!
//! A transaction costs the server far more than a row. So only a few commit at one time, and
//! whoever gets a turn takes along everything that waits by then: the busier the store, the fewer
//! transactions it needs for each nonce. With nobody waiting a call has its turn at once.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stile_domain::{Hold, Lane};
use tokio::sync::{Semaphore, oneshot};
use uuid::Uuid;

use super::bind;
use super::session::Sessions;
use crate::{Binding, Refusal, StoreError};

/// Transactions of allocations at one time.
const TURNS: usize = 4;

/// Nonces in one transaction at most.
const ROWS: usize = 2000;

pub(super) type Answer = Result<Vec<Result<Vec<Hold>, Refusal>>, StoreError>;

#[derive(Debug)]
pub(super) struct Gather {
    waiting: Mutex<Vec<Part>>,
    turns: Semaphore,
}

/// One call's part.
#[derive(Debug)]
struct Part {
    id: Uuid,
    bindings: Vec<Binding>,
    lease: Duration,
    hold_timeout: Duration,
    reply: oneshot::Sender<Answer>,
}

impl Gather {
    pub(super) fn new() -> Self {
        Self { waiting: Mutex::default(), turns: Semaphore::new(TURNS) }
    }

    /// Waits for a turn or for somebody who takes this along, whichever comes first.
    pub(super) async fn bind(
        &self,
        sessions: &Sessions,
        bindings: &[Binding],
        lease: Duration,
        hold_timeout: Duration,
    ) -> Answer {
        let (reply, mut answer) = oneshot::channel();
        let id = Uuid::now_v7();
        let part = Part { id, bindings: bindings.to_vec(), lease, hold_timeout, reply };
        self.waiting().push(part);
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut answer => break answer,
                turn = self.turns.acquire() => match self.take(id) {
                    Some(group) => commit(sessions, group).await,
                    None => {
                        drop(turn);
                        break answer.await;
                    }
                },
            }
        };
        let cut_short = || "whoever committed this was cut short".to_owned();
        answer.unwrap_or_else(|_| Err(StoreError::CommitUnknown(cut_short())))
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Part>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What can go into one transaction: the oldest first, no lane twice, all on the same terms.
    /// `None` if somebody has taken this part along already.
    fn take(&self, id: Uuid) -> Option<Vec<Part>> {
        let mut waiting = self.waiting();
        // Nothing has been sent for a caller that went away while it waited, and nothing will be:
        // it may have read back already that its holds do not exist.
        waiting.retain(|part| !part.reply.is_closed());
        waiting.iter().find(|part| part.id == id)?;
        let first = waiting.first()?;
        let terms = (first.lease, first.hold_timeout);
        let (mut lanes, mut rows): (HashSet<Lane>, usize) = (HashSet::new(), 0);
        let group = waiting
            .extract_if(.., |part| {
                let count: usize = part.bindings.iter().map(|binding| binding.holds.len()).sum();
                let fits = rows == 0 || rows + count <= ROWS;
                let alike = (part.lease, part.hold_timeout) == terms;
                let apart = part.bindings.iter().all(|b| !lanes.contains(&b.claim.lane));
                let goes = fits && alike && apart;
                // What stays keeps its place: nothing of its lanes may overtake it.
                lanes.extend(part.bindings.iter().map(|binding| binding.claim.lane));
                rows += if goes { count } else { 0 };
                goes
            })
            .collect();
        Some(group)
    }
}

async fn commit(sessions: &Sessions, parts: Vec<Part>) {
    let Some(first) = parts.first() else { return };
    let (lease, hold_timeout) = (first.lease, first.hold_timeout);
    let (bindings, replies): (Vec<Vec<Binding>>, Vec<_>) =
        parts.into_iter().map(|part| (part.bindings, part.reply)).unzip();
    let counts: Vec<usize> = bindings.iter().map(Vec::len).collect();
    let merged: Vec<Binding> = bindings.into_iter().flatten().collect();
    // A caller that is gone does not undo a commit, so nobody minds an answer that finds nobody.
    match bind::bind(sessions, &merged, lease, hold_timeout).await {
        Ok(answers) => {
            let mut answers = answers.into_iter();
            for (reply, count) in replies.into_iter().zip(counts) {
                let _ = reply.send(Ok(answers.by_ref().take(count).collect()));
            }
        }
        Err(error) => {
            for reply in replies {
                let _ = reply.send(Err(error.clone()));
            }
        }
    }
}
