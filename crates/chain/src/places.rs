//! How many calls may be under way at an endpoint at one time.
//!
//! There is no limit until one is set. It may change while calls are under way: more places are there
//! at once, fewer as soon as the calls that are too many have ended. Whoever shares a limit with
//! other processes asks [`Places::demand`] how many would be used, and says how many there are.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, Semaphore};

/// The places at one endpoint. Clones share them.
#[derive(Debug, Clone)]
pub struct Places {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Without a limit nobody asks for a place.
    is_limited: AtomicBool,
    free: Semaphore,
    count: Mutex<Count>,
    /// Calls that wait for a place.
    waiting: AtomicUsize,
    /// The most calls that had a place or waited for one since this was last asked.
    peak: AtomicUsize,
    /// Somebody waits.
    wanted: Notify,
}

#[derive(Debug, Default)]
struct Count {
    /// How many places there are to be.
    places: usize,
    /// How many of those given out are not to come back.
    too_many: usize,
}

/// A place at an endpoint, free again when it is dropped. `None` inside where there is no limit.
#[derive(Debug)]
#[must_use]
pub(crate) struct Place(Option<Arc<Shared>>);

impl Default for Places {
    fn default() -> Self {
        Self {
            shared: Arc::new(Shared {
                is_limited: AtomicBool::new(false),
                free: Semaphore::new(0),
                count: Mutex::default(),
                waiting: AtomicUsize::new(0),
                peak: AtomicUsize::new(0),
                wanted: Notify::new(),
            }),
        }
    }
}

impl Places {
    /// There are so many places from now on.
    pub fn set(&self, places: usize) {
        let places = places.min(Semaphore::MAX_PERMITS / 2);
        let mut count = self.shared.count();
        let before = std::mem::replace(&mut count.places, places);
        if places >= before {
            let more = places - before;
            let still_out = more.min(count.too_many);
            count.too_many -= still_out;
            self.shared.free.add_permits(more - still_out);
        } else {
            let fewer = before - places;
            count.too_many += fewer - self.shared.free.forget_permits(fewer);
        }
        drop(count);
        self.shared.is_limited.store(true, Ordering::Release);
    }

    /// How many places there are, with those in which calls must end first.
    pub fn in_force(&self) -> usize {
        let count = self.shared.count();
        count.places + count.too_many
    }

    /// The most places that would have been in use at one time since this was last asked.
    pub fn demand(&self) -> usize {
        let now = self.shared.in_use_and_waiting();
        self.shared.peak.swap(now, Ordering::Relaxed).max(now)
    }

    /// Returns when a call has to wait for a place.
    pub async fn wanted(&self) {
        self.shared.wanted.notified().await;
    }

    /// Waits for a place, for as long as the caller does.
    pub(crate) async fn enter(&self) -> Place {
        let shared = &self.shared;
        if !shared.is_limited.load(Ordering::Acquire) {
            return Place(None);
        }
        if let Ok(permit) = shared.free.try_acquire() {
            permit.forget();
            return shared.taken();
        }
        let _waiting = Waiting::at(shared);
        shared.wanted.notify_one();
        // It is never closed.
        if let Ok(permit) = shared.free.acquire().await {
            permit.forget();
        }
        shared.taken()
    }
}

impl Shared {
    fn count(&self) -> std::sync::MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_use_and_waiting(&self) -> usize {
        let count = self.count();
        let out = (count.places + count.too_many).saturating_sub(self.free.available_permits());
        out + self.waiting.load(Ordering::Relaxed)
    }

    fn taken(self: &Arc<Self>) -> Place {
        self.peak.fetch_max(self.in_use_and_waiting(), Ordering::Relaxed);
        Place(Some(Arc::clone(self)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(shared) = &self.0 else { return };
        let mut count = shared.count();
        if count.too_many > 0 {
            count.too_many -= 1;
        } else {
            shared.free.add_permits(1);
        }
    }
}

/// A call that waits, whether it gets a place or gives up.
struct Waiting<'a>(&'a Shared);

impl<'a> Waiting<'a> {
    fn at(shared: &'a Shared) -> Self {
        shared.waiting.fetch_add(1, Ordering::Relaxed);
        shared.peak.fetch_max(shared.in_use_and_waiting(), Ordering::Relaxed);
        Self(shared)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    /// A place, if there is one at once.
    fn enter(places: &Places) -> Option<Place> {
        places.enter().now_or_never()
    }

    #[test]
    fn without_a_limit_nobody_waits() {
        let places = Places::default();
        let all: Vec<Place> = (0..1000).map(|_| enter(&places).expect("a place")).collect();
        assert_eq!(places.demand(), 0, "nobody counts");
        drop(all);
    }

    #[test]
    fn no_more_get_in_than_there_are_places() {
        let places = Places::default();
        places.set(2);
        let (one, two) = (enter(&places).unwrap(), enter(&places).unwrap());
        assert!(enter(&places).is_none());
        drop(one);
        let three = enter(&places).unwrap();
        assert!(enter(&places).is_none());
        drop((two, three));
        assert_eq!(places.in_force(), 2);
    }

    #[test]
    fn fewer_places_hold_once_the_calls_that_are_too_many_have_ended() {
        let places = Places::default();
        places.set(3);
        let mut calls: Vec<Place> = (0..3).map(|_| enter(&places).unwrap()).collect();
        places.set(1);
        assert_eq!(places.in_force(), 3);
        calls.pop();
        calls.pop();
        assert_eq!(places.in_force(), 1);
        assert!(enter(&places).is_none(), "the last one is still in use");
        places.set(2);
        let other = enter(&places).unwrap();
        assert!(enter(&places).is_none());
        calls.clear();
        drop(other);
        assert_eq!((enter(&places).is_some(), places.in_force()), (true, 2));
    }

    #[test]
    fn places_that_come_back_are_counted_against_those_that_are_out() {
        let places = Places::default();
        places.set(3);
        let calls: Vec<Place> = (0..3).map(|_| enter(&places).unwrap()).collect();
        places.set(1);
        places.set(3);
        assert!(enter(&places).is_none(), "all three are still in use");
        drop(calls);
        let calls: Vec<Place> = (0..3).map(|_| enter(&places).unwrap()).collect();
        assert!(enter(&places).is_none());
        drop(calls);
    }

    #[test]
    fn demand_is_what_was_used_and_waited_for() {
        let places = Places::default();
        places.set(1);
        let one = enter(&places).unwrap();
        assert!(enter(&places).is_none());
        assert!(enter(&places).is_none());
        assert_eq!(places.demand(), 2, "one had it, and one at a time gave up");
        assert_eq!(places.demand(), 1);
        drop(one);
        assert_eq!(places.demand(), 1);
        assert_eq!(places.demand(), 0);
    }
}
