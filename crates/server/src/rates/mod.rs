//! How often may be called: by each key, from each address, and with wrong keys.
//!
//! | file | what is in it |
//! |---|---|
//! | `buckets` | token buckets, in bounded memory |
//! | `wrong_keys` | wrong keys: counted, told, and not looked for without end |
//!
//! Every call that needs a key costs one, a batch as many as it has transactions, and so does every
//! message over a WebSocket. What needs no key costs its address one of its own: probes of a balancer
//! and calls that come through it take nothing from each other. Rates for keys and addresses are off
//! unless they are set: a good key is somebody's who was trusted with it, and how much one caller needs
//! nobody can know beforehand. Wrong keys always have one.

mod buckets;
mod wrong_keys;

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, request};
use axum::response::{IntoResponse, Response};
use stile_domain::KeyId;

use self::buckets::{Buckets, Rate, Take};
use self::wrong_keys::WrongKeys;
use crate::access::Access;
use crate::code::Code;
use crate::measure::{self, WrongKey};
use crate::problem::Problem;
use crate::serve::{Limits, source};

/// How many keys and addresses are kept.
const MOST: usize = 65_536;

/// The rates of a server.
#[derive(Debug)]
pub(crate) struct Rates {
    by_key: Option<Limited<KeyId>>,
    by_address: Option<Limited<IpAddr>>,
    /// For what needs no key.
    open_by_address: Option<Limited<IpAddr>>,
    wrong: Mutex<WrongKeys>,
}

#[derive(Debug)]
struct Limited<K> {
    per_second: u32,
    buckets: Mutex<Buckets<K>>,
}

impl<K: std::hash::Hash + Eq> Limited<K> {
    /// As many at once as in a second.
    fn new(per_second: u32) -> Option<Self> {
        let rate = Rate { per_second: f64::from(per_second), burst: f64::from(per_second) };
        let buckets = Mutex::new(Buckets::new(rate, MOST, Instant::now()));
        (per_second > 0).then_some(Self { per_second, buckets })
    }

    fn take(&self, source: K, cost: Cost) -> Budget {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let take = match cost {
            Cost::One => buckets.take(source, Instant::now()),
            Cost::More(more) => buckets.take_more(source, more, Instant::now()),
        };
        Budget { limit: self.per_second, take }
    }
}

/// What something costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cost {
    One,
    /// So many beside the one that the call has cost, owed if need be.
    More(u32),
}

/// Who pays for a call: the key and the address that it comes from. Marked on every request that is let
/// in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Payer {
    key: Option<KeyId>,
    from: Option<IpAddr>,
}

impl Payer {
    pub(crate) fn new(access: &Access, from: Option<IpAddr>) -> Self {
        Self { key: access.key(), from: from.map(source) }
    }

    /// It was paid for already, at another node.
    pub(crate) fn paid() -> Self {
        Self { key: None, from: None }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Payer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut request::Parts, _: &S) -> Result<Self, Problem> {
        // Absent only if a handler of an open path asks for it, which is a mistake in this crate.
        let absent = || Problem::new(Code::Internal, "nobody checked who is asking");
        parts.extensions.get::<Self>().copied().ok_or_else(absent)
    }
}

/// What is left to a caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    limit: u32,
    take: Take,
}

impl Budget {
    fn left(self) -> u64 {
        match self.take {
            Take::Taken { left } => left,
            Take::Refused { .. } => 0,
        }
    }

    /// Tells the caller.
    pub(crate) fn write(self, headers: &mut HeaderMap) {
        let reset = match self.take {
            Take::Taken { .. } => 1,
            Take::Refused { wait } => seconds(wait),
        };
        let policy = HeaderValue::try_from(format!("{};w=1", self.limit));
        let number = HeaderValue::from;
        for (name, value) in [
            ("ratelimit-limit", number(u64::from(self.limit))),
            ("ratelimit-remaining", number(self.left())),
            ("ratelimit-reset", number(reset)),
        ] {
            headers.insert(HeaderName::from_static(name), value);
        }
        if let Ok(policy) = policy {
            headers.insert(HeaderName::from_static("ratelimit-policy"), policy);
        }
    }

    /// Why the call is refused, if it is.
    pub(crate) fn problem(self) -> Option<Problem> {
        let Take::Refused { wait } = self.take else { return None };
        let detail = format!("{} calls a second are allowed", self.limit);
        Some(Problem::new(Code::RateLimited, detail).retry_after(Some(wait.max(SECOND))))
    }

    /// The same as an answer.
    pub(crate) fn refusal(self) -> Option<Response> {
        let mut response = self.problem()?.into_response();
        self.write(response.headers_mut());
        Some(response)
    }
}

const SECOND: Duration = Duration::from_secs(1);

fn seconds(wait: Duration) -> u64 {
    (wait.as_secs_f64().ceil() as u64).max(1)
}

impl Rates {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            by_key: Limited::new(limits.calls_per_key),
            by_address: Limited::new(limits.calls_per_address),
            open_by_address: Limited::new(limits.calls_per_address),
            wrong: Mutex::new(WrongKeys::new(limits.wrong_keys_per_address, Instant::now())),
        }
    }

    /// Takes a call of somebody who was let in. `None` where no rate is set; else the tighter one.
    pub(crate) fn take(&self, payer: Payer) -> Option<Budget> {
        self.take_at(payer, Cost::One)
    }

    /// Takes what a call costs beside the one that was taken for it.
    pub(crate) fn take_more(&self, payer: Payer, more: u32) -> Option<Budget> {
        self.take_at(payer, Cost::More(more))
    }

    /// Takes a call that needs no key.
    pub(crate) fn take_open(&self, from: Option<IpAddr>) -> Option<Budget> {
        let (limited, from) = self.open_by_address.as_ref().zip(from)?;
        Some(limited.take(source(from), Cost::One))
    }

    fn take_at(&self, payer: Payer, cost: Cost) -> Option<Budget> {
        let by_key = self.by_key.as_ref().zip(payer.key).map(|(it, key)| it.take(key, cost));
        let by_address = self.by_address.as_ref().zip(payer.from);
        let by_address = by_address.map(|(it, from)| it.take(from, cost));
        by_key.into_iter().chain(by_address).min_by_key(|budget| match budget.take {
            Take::Taken { left } => (1, left),
            Take::Refused { .. } => (0, 0),
        })
    }

    /// Whether a key that is not known, from this address, may be looked for in the database.
    pub(crate) fn may_look(&self, from: Option<IpAddr>) -> Result<(), Problem> {
        let Some(from) = from else { return Ok(()) };
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        let Take::Refused { wait } = wrong.look(source(from), Instant::now()) else {
            return Ok(());
        };
        drop(wrong);
        let detail = "this key is not known, and too many that are not came from the same address";
        Err(Problem::new(Code::TooManyWrongKeys, detail).retry_after(Some(wait.max(SECOND))))
    }

    /// Counts a caller who was not let in, and tells of it now and then.
    pub(crate) fn refused(&self, what: WrongKey, from: Option<IpAddr>) {
        measure::wrong_key(what);
        // Whoever sends no key has not tried one.
        if what == WrongKey::Missing {
            return;
        }
        let Some(from) = from else { return };
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        let told = wrong.count(source(from), Instant::now());
        drop(wrong);
        if let Some(count) = told {
            tracing::warn!(address = %from, count, "calls with a wrong API key were refused");
        }
    }
}
