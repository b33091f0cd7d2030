//! How long things last.

use std::time::Duration;

/// How an instance learns that another one has written. Whatever it is, nothing depends on it: what
/// is older than [`Settings::l1_ttl`] is held against the version in Redis anyway.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Invalidation {
    /// Redis tells which keys have changed (client-side caching, RESP3); if the server cannot,
    /// versions are checked only.
    #[default]
    Tracking,
    /// Writers publish, readers subscribe. For servers without client-side caching. All instances
    /// have to be set alike.
    PubSub,
    /// Versions are checked only.
    Off,
}

/// The `[registry]` section of the configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// How long what was read is taken as it is.
    pub l1_ttl: Duration,
    /// How long after that it is still answered with, while its version is checked behind the answer.
    pub l2_ttl: Duration,
    /// How long a version check may take.
    pub version_check_timeout: Duration,
    /// How long any call to Redis may take before it counts as failed.
    pub redis_timeout: Duration,
    /// By how much, at random, times to live differ from each other.
    pub ttl_jitter: Duration,
    /// The shortest and the longest time for which a node that there is not is not asked for again.
    pub negative_ttl: (Duration, Duration),
    /// How long after its last heartbeat a node lives.
    pub node_ttl: Duration,
    /// How long the capacity record of a silent node is kept.
    pub capacity_ttl: Duration,
    /// How long a slot is taken by a job that nobody completes or extends.
    pub job_ttl: Duration,
    /// How long a session without jobs keeps its pool.
    pub session_ttl: Duration,
    /// How long versions, also those of removed nodes, are remembered: longer than any message can
    /// be on its way.
    pub tombstone_ttl: Duration,
    /// What all keys in Redis begin with.
    pub key_prefix: String,
    /// How instances learn of each other's writes.
    pub invalidation: Invalidation,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            l1_ttl: Duration::from_secs(5),
            l2_ttl: Duration::from_secs(30),
            version_check_timeout: Duration::from_millis(50),
            redis_timeout: Duration::from_millis(100),
            ttl_jitter: Duration::from_secs(1),
            negative_ttl: (Duration::from_secs(1), Duration::from_secs(10)),
            node_ttl: Duration::from_secs(30),
            capacity_ttl: Duration::from_secs(3600),
            job_ttl: Duration::from_secs(60),
            session_ttl: Duration::from_secs(600),
            tombstone_ttl: Duration::from_secs(3600),
            key_prefix: "stile".to_owned(),
            invalidation: Invalidation::default(),
        }
    }
}

/// Settings that contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("registry.{key} {problem}")]
pub struct InvalidSettings {
    /// The key in the configuration.
    pub key: &'static str,
    /// What is wrong with it, and what would be right.
    pub problem: &'static str,
}

impl Settings {
    /// Whether they fit together.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        let (shortest, longest) = self.negative_ttl;
        let prefix_fits = |c: char| c.is_ascii_alphanumeric() || "._-:".contains(c);
        let rules = [
            (self.l1_ttl.is_zero(), "l1_ttl", "must not be zero"),
            (self.l2_ttl < self.l1_ttl, "l2_ttl", "must not be shorter than l1_ttl"),
            (self.redis_timeout.is_zero(), "redis_timeout", "must not be zero"),
            (self.version_check_timeout.is_zero(), "version_check_timeout", "must not be zero"),
            (shortest > longest, "negative_ttl", "must give the shorter time first"),
            (self.node_ttl.as_millis() < 3, "node_ttl", "must leave time for heartbeats"),
            (self.job_ttl.as_millis() < 1, "job_ttl", "must not be zero"),
            (self.session_ttl.as_millis() < 1, "session_ttl", "must not be zero"),
            (
                self.capacity_ttl < self.job_ttl,
                "capacity_ttl",
                "must not be shorter than job_ttl, or slots are forgotten while jobs run",
            ),
            (
                self.tombstone_ttl < self.node_ttl,
                "tombstone_ttl",
                "must not be shorter than node_ttl, or a removed node may come back",
            ),
            (
                self.key_prefix.is_empty() || !self.key_prefix.chars().all(prefix_fits),
                "key_prefix",
                "must be of letters, digits and . _ - :",
            ),
        ];
        match rules.into_iter().find(|(broken, ..)| *broken) {
            Some((_, key, problem)) => Err(InvalidSettings { key, problem }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_fit_together() {
        assert_eq!(Settings::default().check(), Ok(()));
    }

    #[test]
    fn contradictions_are_named() {
        let ms = Duration::from_millis;
        let broken = [
            Settings { l1_ttl: ms(0), ..Settings::default() },
            Settings { l2_ttl: ms(1), ..Settings::default() },
            Settings { redis_timeout: ms(0), ..Settings::default() },
            Settings { version_check_timeout: ms(0), ..Settings::default() },
            Settings { negative_ttl: (ms(2), ms(1)), ..Settings::default() },
            Settings { node_ttl: ms(1), ..Settings::default() },
            Settings { job_ttl: ms(0), ..Settings::default() },
            Settings { session_ttl: ms(0), ..Settings::default() },
            Settings { capacity_ttl: ms(1), ..Settings::default() },
            Settings { tombstone_ttl: ms(1), ..Settings::default() },
            Settings { key_prefix: "a{b".to_owned(), ..Settings::default() },
        ];
        for settings in broken {
            let problem = settings.check().unwrap_err();
            assert!(problem.to_string().starts_with(&format!("registry.{}", problem.key)));
        }
    }
}
