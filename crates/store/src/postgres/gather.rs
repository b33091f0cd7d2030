//! Calls that wait for their turn are committed together.
//!
//! A transaction costs the server far more than a row. So only a few commit at one time, and
//! whoever gets a turn takes along everything of its kind that waits by then: the busier the store,
//! the fewer transactions it needs for each row. With nobody waiting a call has its turn at once.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stile_domain::Lane;
use tokio::sync::{Semaphore, oneshot};
use uuid::Uuid;

use super::lane_work::{LaneWork, lane_by_lane};
use super::session::Sessions;
use crate::{Refusal, StoreError};

/// Transactions of one kind at one time: while one is at the disk another can be at work. With more
/// of them each would have less to carry.
const TURNS: usize = 2;

/// Rows of what is asked for in one transaction at most.
const ROWS: usize = 2000;

/// What can be done for several callers in one transaction. The value itself is the terms: only
/// what is asked for on the same terms goes together.
pub(super) trait Together: Debug + Clone + PartialEq + Send + Sync {
    /// One of the things asked for.
    type Part: Debug + Clone + Send + Sync;
    /// What is answered to it.
    type Answer: Debug + Send;

    /// The lane of which no two parts may meet in one transaction, where there is such a rule.
    fn alone(part: &Self::Part) -> Option<Lane>;

    /// How much there is to write.
    fn rows(part: &Self::Part) -> usize;

    /// Does it for all parts, with an answer for each.
    fn run(
        &self,
        sessions: &Sessions,
        parts: &[Self::Part],
    ) -> impl Future<Output = Answers<Self>> + Send;
}

type Answers<W> = Result<Vec<<W as Together>::Answer>, StoreError>;

impl<W: LaneWork> Together for W {
    type Part = W::Part;
    type Answer = Result<W::Answer, Refusal>;

    fn alone(part: &W::Part) -> Option<Lane> {
        Some(W::lane(part))
    }

    fn rows(part: &W::Part) -> usize {
        W::rows(part)
    }

    async fn run(&self, sessions: &Sessions, parts: &[W::Part]) -> Answers<Self> {
        lane_by_lane(sessions, self, parts).await
    }
}

/// Calls of one kind.
#[derive(Debug)]
pub(super) struct Gather<W: Together> {
    waiting: Mutex<Vec<Call<W>>>,
    turns: Semaphore,
}

/// One call that waits.
#[derive(Debug)]
struct Call<W: Together> {
    id: Uuid,
    work: W,
    parts: Vec<W::Part>,
    reply: oneshot::Sender<Answers<W>>,
}

impl<W: Together> Gather<W> {
    pub(super) fn new() -> Self {
        Self { waiting: Mutex::default(), turns: Semaphore::new(TURNS) }
    }

    /// Waits for a turn or for somebody who takes this along, whichever comes first.
    pub(super) async fn run(&self, sessions: &Sessions, work: W, parts: &[W::Part]) -> Answers<W> {
        let (reply, mut answer) = oneshot::channel();
        let id = Uuid::now_v7();
        self.waiting().push(Call { id, work, parts: parts.to_vec(), reply });
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

    fn waiting(&self) -> MutexGuard<'_, Vec<Call<W>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What can go into one transaction: the oldest first, no lane twice, all on the same terms.
    /// `None` if somebody has taken this call along already.
    fn take(&self, id: Uuid) -> Option<Vec<Call<W>>> {
        let mut waiting = self.waiting();
        // Nothing has been sent for a caller that went away while it waited, and nothing will be:
        // it may have read back already that what it asked for does not exist.
        waiting.retain(|call| !call.reply.is_closed());
        waiting.iter().find(|call| call.id == id)?;
        let terms = waiting.first()?.work.clone();
        let (mut lanes, mut rows): (HashSet<Lane>, usize) = (HashSet::new(), 0);
        let group = waiting
            .extract_if(.., |call| {
                let count: usize = call.parts.iter().map(<W as Together>::rows).sum();
                let fits = rows == 0 || rows + count <= ROWS;
                let alike = call.work == terms;
                let mut own = call.parts.iter().filter_map(W::alone);
                let apart = own.all(|lane| !lanes.contains(&lane));
                let goes = fits && alike && apart;
                // What stays keeps its place: nothing of its lanes may overtake it.
                lanes.extend(call.parts.iter().filter_map(W::alone));
                rows += if goes { count } else { 0 };
                goes
            })
            .collect();
        Some(group)
    }
}

async fn commit<W: Together>(sessions: &Sessions, mut calls: Vec<Call<W>>) {
    let Some(work) = calls.first().map(|call| call.work.clone()) else { return };
    // The answers leave with the calls, so the parts can.
    let parts = calls.iter_mut().map(|call| std::mem::take(&mut call.parts));
    let parts: Vec<Vec<W::Part>> = parts.collect();
    let counts: Vec<usize> = parts.iter().map(Vec::len).collect();
    let merged: Vec<W::Part> = parts.into_iter().flatten().collect();
    // A caller that is gone does not undo a commit, so nobody minds an answer that finds nobody.
    match work.run(sessions, &merged).await {
        Ok(answers) => {
            let mut answers = answers.into_iter();
            for (call, count) in calls.into_iter().zip(counts) {
                let _ = call.reply.send(Ok(answers.by_ref().take(count).collect()));
            }
        }
        // Something that one of them asked for cannot be written; the others are not to suffer.
        Err(StoreError::Constraint(_) | StoreError::Internal(_)) if calls.len() > 1 => {
            let mut merged = merged.into_iter();
            for (call, count) in calls.into_iter().zip(counts) {
                let parts: Vec<W::Part> = merged.by_ref().take(count).collect();
                let _ = call.reply.send(work.run(sessions, &parts).await);
            }
        }
        Err(error) => {
            for call in calls {
                let _ = call.reply.send(Err(error.clone()));
            }
        }
    }
}
