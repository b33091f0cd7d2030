//! `NonceComponent`: nonces for callers who sign and send by themselves.

use std::future::Future;
use std::sync::Arc;

use stile_domain::{B256, Elsewhere, Hold, HoldId, Lane, Nonce};
use stile_store::{AllocationKey, HoldFilter, HoldPage, LaneView, Mark, MarkVerdict};
use tokio::sync::oneshot;

use crate::allocate::Allocate;
use crate::core::Core;
use crate::dispatch::{Call, Dispatch};
use crate::error::NonceError;
use crate::mark::MarkCall;
use crate::pause;
use crate::with_nonce::{HandlerError, Sent, WithNonceError};

/// Hands out the nonces of lanes, each exactly once, whatever node or mode serves the call.
///
/// Cheap to clone. Calls may be made from anywhere, also from inside a [`Self::with_nonce`]
/// handler, for the same lane or another. Dropping a call's future does not undo it half-way: it
/// is either not begun or carried through, and a nonce that nobody is left to take goes back.
#[derive(Debug, Clone)]
pub struct NonceComponent {
    core: Arc<Core>,
    dispatch: Arc<Dispatch>,
}

impl NonceComponent {
    pub(crate) fn new(core: Arc<Core>, dispatch: Arc<Dispatch>) -> Self {
        Self { core, dispatch }
    }

    /// Gives out the lane's next nonce: the lowest one that was given back, else a fresh one.
    pub async fn allocate(&self, lane: Lane) -> Result<Hold, NonceError> {
        self.allocate_keyed(lane, None).await
    }

    /// Like [`Self::allocate`], but the same key always answers with the same hold.
    pub async fn allocate_once(&self, lane: Lane, key: AllocationKey) -> Result<Hold, NonceError> {
        self.allocate_keyed(lane, Some(key)).await
    }

    async fn allocate_keyed(
        &self,
        lane: Lane,
        key: Option<AllocationKey>,
    ) -> Result<Hold, NonceError> {
        let (reply, answer) = oneshot::channel();
        let mut answer = Untaken { core: &self.core, answer, keyed: key.is_some() };
        self.call(Call::Allocate(Allocate::new(lane, key, reply)), &mut answer.answer).await
    }

    /// Says that a transaction with this nonce was sent. Saying it again answers the same.
    pub async fn mark_used(&self, hold: &Hold, tx_hash: B256) -> Result<Hold, NonceError> {
        self.mark(hold.lane, hold.nonce, hold.id, MarkVerdict::Used(tx_hash)).await
    }

    /// Says that nothing was sent with this nonce and nothing will be. When this returns the nonce
    /// is on offer again, unless the chain took too long to say that it is unused.
    pub async fn mark_recyclable(&self, hold: &Hold, reason: &str) -> Result<Hold, NonceError> {
        let verdict = MarkVerdict::Recyclable(reason.to_owned());
        self.mark(hold.lane, hold.nonce, hold.id, verdict).await
    }

    /// Marks a hold known by its parts.
    pub async fn mark(
        &self,
        lane: Lane,
        nonce: Nonce,
        hold: HoldId,
        verdict: MarkVerdict,
    ) -> Result<Hold, NonceError> {
        let gives_back = matches!(verdict, MarkVerdict::Recyclable(_));
        let (reply, mut answer) = oneshot::channel();
        let mark = Mark { lane, nonce, hold, verdict };
        let hold = self.call(Call::Mark(MarkCall { mark, reply }), &mut answer).await?;
        if gives_back {
            self.core.lanes.slot(lane).gave_back();
            self.core.refreshed(lane).await;
        }
        Ok(hold)
    }

    /// Allocates a nonce, runs the handler with it, and marks it by the handler's result: sent is
    /// used, [`HandlerError::NotSent`] is recyclable. After any other error, a panic, or if this
    /// future is dropped, the hold stays as it is and goes the way of a silent caller's.
    ///
    /// The handler runs in the caller's own task, so it may be slow and may call the component
    /// again.
    pub async fn with_nonce<T, E, F, Fut>(
        &self,
        lane: Lane,
        handler: F,
    ) -> Result<Sent<T>, WithNonceError<E>>
    where
        F: FnOnce(Hold) -> Fut,
        Fut: Future<Output = Result<Sent<T>, HandlerError<E>>>,
    {
        let hold = self.allocate(lane).await.map_err(WithNonceError::Allocate)?;
        let result = handler(hold.clone()).await;
        let (marked, tx_hash) = match &result {
            Ok(sent) => (self.mark_used(&hold, sent.tx_hash).await, Some(sent.tx_hash)),
            Err(HandlerError::NotSent(_)) => {
                (self.mark_recyclable(&hold, "the handler did not send").await, None)
            }
            Err(HandlerError::MaybeSent(_)) => (Ok(hold.clone()), None),
        };
        let hold = Box::new(hold);
        match (marked, result) {
            (Err(error), _) => Err(WithNonceError::Mark { error, hold, tx_hash }),
            (Ok(_), Ok(sent)) => Ok(sent),
            (Ok(_), Err(error)) => Err(WithNonceError::Handler { error, hold }),
        }
    }

    /// Whoever was said to hold a lane does not: the next call asks the database again.
    pub fn ask_again(&self, lane: Lane) {
        self.core.lanes.slot(lane).ask_again();
    }

    /// Stops a lane from giving out nonces until it is resumed. `false`: nobody ever took it.
    pub async fn pause(&self, lane: Lane, reason: &str) -> Result<bool, NonceError> {
        Ok(pause::by_person(&self.core, lane, reason).await?)
    }

    /// Why a lane is not Stile's, as was known a second ago; `None` if it is. What counts is the lane's
    /// row, when a nonce is bound.
    pub fn elsewhere(&self, lane: Lane) -> Option<Elsewhere> {
        self.core.rollout.elsewhere(lane)
    }

    /// Lanes as the database has them; `None` for one that nobody ever took.
    pub async fn lanes(&self, lanes: &[Lane]) -> Result<Vec<Option<LaneView>>, NonceError> {
        Ok(self.core.store.lanes(lanes).await?)
    }

    /// A page of a lane's holds.
    pub async fn holds(&self, filter: HoldFilter) -> Result<HoldPage, NonceError> {
        Ok(self.core.store.holds(filter).await?)
    }

    async fn call(&self, call: Call, answer: &mut Answer) -> Result<Hold, NonceError> {
        let answered = async {
            self.dispatch.send(&self.core, call).await?;
            answer.await.unwrap_or(Err(NonceError::ShuttingDown))
        };
        let until = tokio::time::Instant::now() + self.core.settings.patience;
        self.core.in_time(until, answered).await.unwrap_or_else(Err)
    }
}

type Answer = oneshot::Receiver<Result<Hold, NonceError>>;

/// An answer that its caller has not taken yet. A caller may go away between the moment the answer
/// is given and the moment it would have been taken; then the hold goes back.
struct Untaken<'c> {
    core: &'c Core,
    answer: Answer,
    keyed: bool,
}

impl Drop for Untaken<'_> {
    fn drop(&mut self) {
        // From here on whoever answers learns that nobody is there.
        self.answer.close();
        if let Ok(Ok(hold)) = self.answer.try_recv()
            && !self.keyed
        {
            self.core.orphans.add(hold.lane, [(hold.nonce, hold.id)]);
        }
    }
}
