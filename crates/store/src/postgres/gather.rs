//! Calls that wait for their turn are committed together.
//!
//! A transaction costs the server far more than a row. So only a few commit at one time, and
//! whoever gets a turn takes along everything of its kind that waits by then: the busier the store,
//! the fewer transactions it needs for each row. With nobody waiting a call has its turn at once.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stile_domain::Lane;
use tokio::sync::{Semaphore, oneshot};
use uuid::Uuid;

use super::lane_work::{LaneWork, lane_by_lane};
use super::session::Sessions;
use crate::{Refusal, StoreError};

/// Transactions of one kind at one time.
const TURNS: usize = 4;

/// Rows of what is asked for in one transaction at most.
const ROWS: usize = 2000;

type Answer<W> = Result<Vec<Result<<W as LaneWork>::Answer, Refusal>>, StoreError>;

/// Calls of one kind.
#[derive(Debug)]
pub(super) struct Gather<W: LaneWork> {
    waiting: Mutex<Vec<Call<W>>>,
    turns: Semaphore,
}

/// One call that waits.
#[derive(Debug)]
struct Call<W: LaneWork> {
    id: Uuid,
    work: W,
    parts: Vec<W::Part>,
    reply: oneshot::Sender<Answer<W>>,
}

impl<W: LaneWork> Gather<W> {
    pub(super) fn new() -> Self {
        Self { waiting: Mutex::default(), turns: Semaphore::new(TURNS) }
    }

    /// Waits for a turn or for somebody who takes this along, whichever comes first.
    pub(super) async fn run(&self, sessions: &Sessions, work: W, parts: &[W::Part]) -> Answer<W> {
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
                let count: usize = call.parts.iter().map(W::rows).sum();
                let fits = rows == 0 || rows + count <= ROWS;
                let alike = call.work == terms;
                let apart = call.parts.iter().all(|part| !lanes.contains(&W::lane(part)));
                let goes = fits && alike && apart;
                // What stays keeps its place: nothing of its lanes may overtake it.
                lanes.extend(call.parts.iter().map(W::lane));
                rows += if goes { count } else { 0 };
                goes
            })
            .collect();
        Some(group)
    }
}

async fn commit<W: LaneWork>(sessions: &Sessions, calls: Vec<Call<W>>) {
    let Some(work) = calls.first().map(|call| call.work.clone()) else { return };
    let (parts, replies): (Vec<Vec<W::Part>>, Vec<_>) =
        calls.into_iter().map(|call| (call.parts, call.reply)).unzip();
    let counts: Vec<usize> = parts.iter().map(Vec::len).collect();
    let merged: Vec<W::Part> = parts.into_iter().flatten().collect();
    // A caller that is gone does not undo a commit, so nobody minds an answer that finds nobody.
    match lane_by_lane(sessions, &work, &merged).await {
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
