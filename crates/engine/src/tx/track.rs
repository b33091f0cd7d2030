//! What a node keeps of one chain.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use stile_chain::{ChainPool, Chains};
use stile_domain::{ChainId, FeeQuote, HeaderWindow, Heads, Lane, U256};
use tokio::sync::Notify;

use crate::tx::book::Book;
use crate::tx::funds::Funds;
use crate::tx::submit::Queue;

/// The chains that transactions go to.
#[derive(Debug, Default)]
pub(crate) struct Tracks {
    tracks: HashMap<ChainId, Arc<Track>>,
}

#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) pool: Arc<ChainPool>,
    pub(crate) queue: Queue,
    /// Wakes the follower.
    pub(crate) look: Notify,
    book: Mutex<Book>,
    window: Mutex<HeaderWindow>,
    heads: Mutex<Option<Heads>>,
    quote: Mutex<Option<(Instant, FeeQuote)>>,
    adopted: Mutex<Vec<Lane>>,
    funds: Mutex<Funds>,
}

impl Tracks {
    pub(crate) fn new(chains: &Chains, window: usize) -> Self {
        let tracks = chains.iter().map(|pool| {
            let track = Track {
                pool: Arc::clone(pool),
                queue: Queue::default(),
                look: Notify::new(),
                book: Mutex::default(),
                window: Mutex::new(HeaderWindow::new(window, [])),
                heads: Mutex::default(),
                quote: Mutex::default(),
                adopted: Mutex::default(),
                funds: Mutex::default(),
            };
            (pool.chain(), Arc::new(track))
        });
        Self { tracks: tracks.collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tracks.is_empty()
    }

    pub(crate) fn get(&self, chain: ChainId) -> Option<&Arc<Track>> {
        self.tracks.get(&chain)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Track>> {
        self.tracks.values()
    }
}

impl Track {
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.book)
    }

    pub(crate) fn window(&self) -> MutexGuard<'_, HeaderWindow> {
        lock(&self.window)
    }

    /// The height below which no reorganisation reopens anything: that of the oldest header kept,
    /// once as many are kept as are ever looked back. 0 until then.
    pub(crate) fn settled_below(&self) -> u64 {
        let window = self.window();
        window.bottom().filter(|_| window.is_full()).unwrap_or(0)
    }

    /// How far the chain has come; `None` until it has been seen.
    pub(crate) fn heads(&self) -> Option<Heads> {
        *lock(&self.heads)
    }

    pub(crate) fn set_heads(&self, heads: Heads) {
        *lock(&self.heads) = Some(heads);
    }

    /// What the chain asks for, if it was asked after `since`.
    pub(crate) fn quote(&self, since: Instant) -> Option<FeeQuote> {
        lock(&self.quote).filter(|(at, _)| *at >= since).map(|(_, quote)| quote)
    }

    pub(crate) fn set_quote(&self, quote: FeeQuote) {
        *lock(&self.quote) = Some((Instant::now(), quote));
    }

    /// Lanes that are stopped because their accounts cannot pay.
    pub(crate) fn funds(&self) -> MutexGuard<'_, Funds> {
        lock(&self.funds)
    }

    /// The same, by name.
    pub(crate) fn unfunded(&self) -> HashSet<Lane> {
        self.funds().lanes()
    }

    /// A lane's account cannot pay this much: nothing of it is sent until it can.
    pub(crate) fn stop_for_funds(&self, lane: Lane, needed: U256) {
        self.funds().stop(lane, needed);
    }

    /// Lanes whose finished transactions are to be compared with the chain.
    pub(crate) fn adopted(&self) -> MutexGuard<'_, Vec<Lane>> {
        lock(&self.adopted)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
