//! Which tokens let their owners in, kept in memory.
//!
//! No call waits for the database to learn who is asking: keys are looked up in a copy of them
//! that is read anew every second. So a key that is revoked, on whatever node, lets nobody in a
//! second later. A token that is not in the copy makes it be read at once, so a key works from
//! the moment it is made; however many such tokens come, they share a few reads. While the
//! database is away the copy goes on being used, and keys still end when their time is over.
//!
//! While there has never been a key everything is open, which is why such a server is for its own
//! machine only. From the first key on, whatever becomes of it, every server on the database is
//! closed for good: the database remembers.

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
use crate::key_use::KeyUse;
use crate::measure;
use crate::peers::Behalf;
use crate::problem::Problem;

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
    /// When this began: uses of keys are counted from here.
    began: Instant,
    /// Never unset.
    closed: AtomicBool,
    /// Held while reading, so that no older answer replaces a newer one.
    reads: Mutex<Reads>,
    failing: AtomicBool,
}

/// Why somebody is not let in.
#[derive(Debug)]
pub(crate) enum Refused {
    /// No key was given.
    Missing,
    /// It is none, or not good any more.
    Wrong,
    /// It is not known, and was not looked for: too many like it have come.
    NotLookedFor(Problem),
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
        let keys = store.active_keys().await?;
        let inner = Inner {
            closed: AtomicBool::new(!keys.is_empty() || store.key_existed().await?),
            began: begun,
            passes: ArcSwap::default(),
            reads: Mutex::new(Reads { tried: begun, done: begun }),
            failing: AtomicBool::new(false),
            store,
        };
        inner.passes.store(Arc::new(inner.passes(keys, begun)));
        Ok(Self(Arc::new(inner)))
    }

    /// Whether there is a key that lets somebody in.
    pub fn has_keys(&self) -> bool {
        !self.0.passes.load().is_empty()
    }

    /// Whether calls without a key are let through.
    pub fn is_open(&self) -> bool {
        !self.0.closed.load(Ordering::Acquire)
    }

    /// From now on every call needs a key, even if there is none.
    pub fn close(&self) {
        self.0.closed.store(true, Ordering::Release);
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.0.store
    }

    /// Who is asking. Why somebody is not let in is nobody's business: a missing, an unknown, a
    /// revoked and an expired key look the same from outside. A key that is not known is looked for
    /// in the database only if it `may_look`.
    pub(crate) async fn admit(
        &self,
        headers: &HeaderMap,
        may_look: impl FnOnce() -> Result<(), Problem>,
    ) -> Result<Access, Refused> {
        let Some(hash) = bearer(headers).map(|token| token.hash()) else {
            let refused = || match headers.contains_key(header::AUTHORIZATION) {
                true => Refused::Wrong,
                false => Refused::Missing,
            };
            return self.is_open().then_some(Access::Open).ok_or_else(refused);
        };
        let pass = match self.find(&hash) {
            Some(pass) => Some(pass),
            None => match may_look() {
                Ok(()) => {
                    let _ = tokio::time::timeout(PATIENCE, self.read_for_unknown()).await;
                    self.find(&hash)
                }
                // Whoever sends nothing is let in, so whoever sends something is, too.
                Err(_) if self.is_open() => None,
                Err(problem) => return Err(Refused::NotLookedFor(problem)),
            },
        };
        match pass {
            Some(pass) if pass.in_time() => Ok(Access::Key(pass)),
            Some(_) => Err(Refused::Wrong),
            None => self.is_open().then_some(Access::Open).ok_or(Refused::Wrong),
        }
    }

    /// On whose behalf another node asks; `None` if the key lets nobody in here, or is for something
    /// else than that node says. That node's word is no more than a claim about a key: whether it is
    /// good is looked up here.
    pub(crate) async fn admit_behalf(&self, behalf: &Behalf) -> Option<Access> {
        let Some(id) = behalf.key() else { return self.is_open().then_some(Access::Open) };
        let find = || self.0.passes.load().values().find(|pass| pass.id == id).map(Arc::clone);
        let pass = match find() {
            Some(pass) => Some(pass),
            None => {
                let _ = tokio::time::timeout(PATIENCE, self.read_for_unknown()).await;
                find()
            }
        };
        let good = |pass: &Arc<Pass>| pass.in_time() && behalf.is_of(id, &pass.scope);
        pass.filter(good).map(Access::Key)
    }

    /// Whether somebody who was let in would still be: for answers that have no end.
    pub(crate) fn still_admits(&self, access: &Access) -> bool {
        match access {
            Access::Open => self.is_open(),
            // As it is now: it may have been rotated since, and end.
            Access::Key(pass) => {
                pass.in_time() && self.find(&pass.hash).is_some_and(|pass| pass.in_time())
            }
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

    /// Reads the keys every second, for ever, and writes which were used. Neither waits for the
    /// other.
    pub(crate) async fn keep_fresh(&self) {
        let refresh = async {
            loop {
                tokio::time::sleep(REFRESH).await;
                self.refresh().await;
            }
        };
        let note = async {
            loop {
                tokio::time::sleep(REFRESH).await;
                self.note_use().await;
            }
        };
        tokio::join!(refresh, note);
    }

    /// Writes when keys were used, those of which it is time to.
    async fn note_use(&self) {
        let passes = self.0.passes.load_full();
        let due: Vec<_> =
            passes.values().filter_map(|pass| Some((pass, pass.used.due()?))).collect();
        if due.is_empty() {
            return;
        }
        let used: Vec<_> = due.iter().map(|(pass, due)| (pass.id, due.ago)).collect();
        match self.0.store.note_key_use(&used).await {
            Ok(()) => due.iter().for_each(|(pass, due)| pass.used.written(*due)),
            // It is tried again in a minute.
            Err(error) => tracing::debug!(%error, "the use of API keys could not be noted"),
        }
    }

    async fn read(&self, reads: &mut Reads) {
        let (begun, failing) = (Instant::now(), &self.0.failing);
        reads.tried = begun;
        let read = async {
            let keys = self.0.store.active_keys().await?;
            // A key that came and went between two reads counts too.
            let close = self.is_open() && (!keys.is_empty() || self.0.store.key_existed().await?);
            Ok::<_, StoreError>((keys, close))
        };
        let read = read.await;
        measure::keys_read(read.is_ok());
        match read {
            Ok((keys, close)) => {
                if close {
                    tracing::info!("there are API keys now: every call needs one");
                    self.close();
                }
                self.0.passes.store(Arc::new(self.0.passes(keys, begun)));
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

impl Inner {
    /// `begun` is before the database looked at its clock, so that a key ends too early rather than
    /// too late.
    fn passes(&self, keys: Vec<ActiveKey>, begun: Instant) -> Passes {
        let known = self.passes.load();
        let used = |hash: &TokenHash| match known.get(hash) {
            Some(pass) => Arc::clone(&pass.used),
            None => Arc::new(KeyUse::new(self.began)),
        };
        let pass = |key: ActiveKey| Pass {
            id: key.id,
            hash: key.hash,
            scope: key.scope,
            networks: key.networks,
            used: used(&key.hash),
            until: key.remaining.and_then(|remaining| begun.checked_add(remaining)),
        };
        keys.into_iter().map(|key| (key.hash, Arc::new(pass(key)))).collect()
    }
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
