//! Which tokens let their owners in, kept in memory.
//!
//! No call waits for the database to learn who is asking: keys are looked up in a copy of them
//! that is read anew every second. So a key that is revoked, on whatever node, lets nobody in a
//! second later. A token that is not in the copy makes it be read at once, so a key works from
//! the moment it is made; however many such tokens come, they share a few reads. While the
//! database is away the copy goes on being used, and keys still end when their time is over.
//!
//! With no key at all everything is open, which is why a server without keys is for its own
//! machine only. From the first key on, whatever becomes of it, a server stays closed until it
//! is started again.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use axum::http::{HeaderMap, header};
use stile_domain::{Token, TokenHash};
use stile_store::{ActiveKey, Store, StoreError};
use tokio::sync::Mutex;

use crate::access::{Access, Pass};
use crate::measure;

/// How often keys are read: the longest that a revoked one is still good for.
const REFRESH: Duration = Duration::from_secs(1);
/// The shortest time between two reads that unknown tokens cause.
const GAP: Duration = Duration::from_millis(100);
/// The longest that a call with an unknown token waits for a read.
const PATIENCE: Duration = Duration::from_secs(2);

/// Tokens are found by their SHA-256. How long a look into a plain map takes may tell something
/// about the hashes in it; but nobody can make a token whose hash begins as they like without
/// trying about as many tokens, and a hash known in part, or whole, is no token.
type Passes = HashMap<TokenHash, Arc<Pass>>;

/// Knows the keys of a store.
#[derive(Debug, Clone)]
pub struct Guard(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Arc<dyn Store>,
    passes: ArcSwap<Passes>,
    /// Never unset.
    closed: AtomicBool,
    /// Held while reading, so that no older answer replaces a newer one.
    reads: Mutex<Reads>,
    failing: AtomicBool,
}

/// When reads began. A caller who goes away takes the read it waits for along, so one that was
/// tried is not always one that was done.
#[derive(Debug)]
struct Reads {
    tried: Instant,
    done: Instant,
}

impl Guard {
    /// Reads the keys. Fails if that cannot be done: a server must know who may call before it
    /// answers anybody.
    pub async fn load(store: Arc<dyn Store>) -> Result<Self, StoreError> {
        let begun = Instant::now();
        let passes = passes(store.active_keys().await?, begun);
        Ok(Self(Arc::new(Inner {
            closed: AtomicBool::new(!passes.is_empty()),
            passes: ArcSwap::from_pointee(passes),
            reads: Mutex::new(Reads { tried: begun, done: begun }),
            failing: AtomicBool::new(false),
            store,
        })))
    }

    /// Whether calls without a key are let through.
    pub fn is_open(&self) -> bool {
        !self.0.closed.load(Ordering::Acquire)
    }

    /// From now on every call needs a key, even if there is none.
    pub(crate) fn close(&self) {
        self.0.closed.store(true, Ordering::Release);
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.0.store
    }

    /// Who is asking; `None` if they may not. Why not is nobody's business: a missing, an unknown,
    /// a revoked and an expired key look the same from outside.
    pub(crate) async fn admit(&self, headers: &HeaderMap) -> Option<Access> {
        let Some(hash) = bearer(headers).map(|token| token.hash()) else {
            return self.is_open().then_some(Access::Open);
        };
        let pass = match self.find(&hash) {
            Some(pass) => Some(pass),
            None => {
                let _ = tokio::time::timeout(PATIENCE, self.read_for_unknown()).await;
                self.find(&hash)
            }
        };
        match pass {
            Some(pass) => pass.in_time().then_some(Access::Key(pass)),
            None => self.is_open().then_some(Access::Open),
        }
    }

    /// Whether somebody who was let in would still be: for answers that have no end.
    pub(crate) fn still_admits(&self, access: &Access) -> bool {
        match access {
            Access::Open => self.is_open(),
            Access::Key(pass) => pass.in_time() && self.find(&pass.hash).is_some(),
        }
    }

    fn find(&self, hash: &TokenHash) -> Option<Arc<Pass>> {
        self.0.passes.load().get(hash).map(Arc::clone)
    }

    /// Reads the keys, unless a read has begun since this was asked for. Callers who come together
    /// share one read, and reads keep their distance.
    async fn read_for_unknown(&self) {
        let asked = Instant::now();
        let mut reads = self.0.reads.lock().await;
        if reads.done >= asked {
            return;
        }
        if let Some(wait) = GAP.checked_sub(reads.tried.elapsed()) {
            tokio::time::sleep(wait).await;
        }
        self.read(&mut reads).await;
    }

    /// Reads the keys now: somebody has just changed them.
    pub(crate) async fn refresh(&self) {
        self.read(&mut *self.0.reads.lock().await).await;
    }

    /// Reads the keys every second, for ever.
    pub(crate) async fn keep_fresh(&self) {
        loop {
            tokio::time::sleep(REFRESH).await;
            self.refresh().await;
        }
    }

    async fn read(&self, reads: &mut Reads) {
        let (begun, failing) = (Instant::now(), &self.0.failing);
        reads.tried = begun;
        let read = self.0.store.active_keys().await;
        measure::keys_read(read.is_ok());
        match read {
            Ok(keys) => {
                if !keys.is_empty() && self.is_open() {
                    tracing::info!("there are API keys now: every call needs one");
                    self.close();
                }
                self.0.passes.store(Arc::new(passes(keys, begun)));
                if failing.swap(false, Ordering::Relaxed) {
                    tracing::info!("API keys can be read again");
                }
            }
            Err(error) => {
                if !failing.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, "API keys cannot be read; those known last go on");
                }
            }
        }
        reads.done = begun;
    }
}

/// `begun` is before the database looked at its clock, so that a key ends too early rather than
/// too late.
fn passes(keys: Vec<ActiveKey>, begun: Instant) -> Passes {
    let pass = |key: ActiveKey| Pass {
        id: key.id,
        hash: key.hash,
        scope: key.scope,
        until: key.remaining.and_then(|remaining| begun.checked_add(remaining)),
    };
    keys.into_iter().map(|key| (key.hash, Arc::new(pass(key)))).collect()
}

/// The token of `Authorization: Bearer …`, if that is there once and is one.
fn bearer(headers: &HeaderMap) -> Option<Token> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(only), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = only.to_str().ok()?.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") { token.trim_start().parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str]) -> Option<Token> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        bearer(&headers)
    }

    #[test]
    fn a_token_comes_once_and_as_a_bearer_token() {
        let token = Token::fresh().unwrap();
        let text = token.reveal();
        for good in [format!("Bearer {text}"), format!("bearer {text}"), format!("BEARER  {text}")]
        {
            assert_eq!(of(&[&good]).unwrap().hash(), token.hash(), "{good}");
        }
        let good = format!("Bearer {text}");
        for bad in [
            &[][..],
            &[text],
            &[&format!("Basic {text}")],
            &[&format!("Bearer{text}")],
            &[&format!("Bearer {text}x")],
            &["Bearer"],
            &["Bearer "],
            &[&good, &good],
        ] {
            assert!(of(bad).is_none(), "{bad:?}");
        }
    }
}
