//! One look at a chain for all who wait.
//!
//! A chain that hangs is asked by everybody at once. Were each of them to look by itself, the last
//! one would wait for as many time-outs as there are callers. So there is one look at a time, driven
//! by whoever waits for it: a caller that goes away leaves it to the others, and with the last of
//! them it ends.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};

use crate::{ChainError, View};

type Found = Result<View, ChainError>;
type Flight = BoxFuture<'static, Found>;

/// The look that is under way, and how the last one failed.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    under_way: Mutex<Option<WeakShared<Flight>>>,
    failed: Mutex<Option<(Instant, ChainError)>>,
}

impl Flights {
    /// Waits for the look that is under way; begins this one if there is none.
    pub(crate) async fn join(&self, look: impl Future<Output = Found> + Send + 'static) -> Found {
        let flight = self.flight(look);
        let found = flight.clone().await;
        // The first to hear of it makes room for the next look and keeps what is to be remembered.
        let mut under_way = lock(&self.under_way);
        let ours = under_way.as_ref().and_then(WeakShared::upgrade);
        if ours.is_some_and(|ours| ours.ptr_eq(&flight)) {
            *under_way = None;
            *lock(&self.failed) = found.as_ref().err().map(|e| (Instant::now(), e.clone()));
        }
        found
    }

    /// The error of the last look, if it failed within this time.
    pub(crate) fn failed_within(&self, lifetime: Duration) -> Option<ChainError> {
        let failed = lock(&self.failed);
        failed.as_ref().filter(|(at, _)| at.elapsed() < lifetime).map(|(_, error)| error.clone())
    }

    fn flight(&self, look: impl Future<Output = Found> + Send + 'static) -> Shared<Flight> {
        let mut under_way = lock(&self.under_way);
        if let Some(flight) = under_way.as_ref().and_then(WeakShared::upgrade)
            && flight.peek().is_none()
        {
            return flight;
        }
        let flight = look.boxed().shared();
        *under_way = flight.downgrade();
        flight
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
