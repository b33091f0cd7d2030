//! The pools that sessions are in.

use std::time::Duration;

use crate::PoolId;
use crate::clock::Moment;

/// What this instance remembers of the pools of sessions; which pool a session has is in Redis. It is
/// forgotten after half the time, so that a session that goes on is heard of there in time.
#[derive(Debug)]
pub(crate) struct Sessions {
    ttl: Duration,
    pools: papaya::HashMap<Box<str>, (PoolId, Moment), foldhash::fast::RandomState>,
}

impl Sessions {
    pub(crate) fn new(session_ttl: Duration) -> Self {
        Self { ttl: session_ttl / 2, pools: papaya::HashMap::default() }
    }

    pub(crate) fn get(&self, session: &str, now: Moment) -> Option<PoolId> {
        let pools = self.pools.pin();
        let (pool, until) = pools.get(session)?;
        (now < *until).then(|| pool.clone())
    }

    pub(crate) fn insert(&self, session: &str, pool: PoolId, now: Moment) {
        self.pools.pin().insert(session.into(), (pool, now.plus(self.ttl)));
    }

    pub(crate) fn sweep(&self, now: Moment) {
        self.pools.pin().retain(|_, (_, until)| now < *until);
    }
}
