//! Redis, and the node registry on it.

use serde::{Deserialize, Serialize};

use crate::config::value::{ConnectionUrl, DurationRange, HumanDuration, SecretReference, choice};

/// `[redis]`: the shared memory of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Redis {
    /// Where Redis is. `None`: this node keeps to itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<ConnectionUrl>,
    /// Where its password is kept, if it is not in the URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretReference>,
}

choice! {
    /// How a node learns that another one has written to Redis.
    #[derive(Default)]
    pub enum Invalidation {
        /// Redis tells which keys have changed.
        #[default]
        Tracking = "tracking",
        /// Writers publish, readers subscribe.
        PubSub = "pub-sub",
        /// It does not, and looks by itself.
        Off = "off",
    }
}

/// `[registry]`: the node registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Registry {
    /// How long what was read is taken as it is.
    pub l1_ttl: HumanDuration,
    /// How long after that it is still answered with.
    pub l2_ttl: HumanDuration,
    /// How long a version check may take.
    pub version_check_timeout: HumanDuration,
    /// How long any call to Redis may take.
    pub redis_timeout: HumanDuration,
    /// By how much, at random, times to live differ.
    pub ttl_jitter: HumanDuration,
    /// For how long a node that there is not is not asked for again.
    pub negative_ttl: DurationRange,
    /// How long a node lives after its last heartbeat.
    pub node_ttl: HumanDuration,
    /// How long a node's slots are remembered that nobody asks for.
    pub capacity_ttl: HumanDuration,
    /// How long a job has its slot.
    pub job_ttl: HumanDuration,
    /// How long a session without jobs keeps its pool.
    pub session_ttl: HumanDuration,
    /// How long removed nodes are remembered.
    pub tombstone_ttl: HumanDuration,
    /// What all keys in Redis begin with.
    pub key_prefix: String,
    /// How nodes learn of each other's writes.
    pub invalidation: Invalidation,
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            l1_ttl: HumanDuration::from_secs(5),
            l2_ttl: HumanDuration::from_secs(30),
            version_check_timeout: HumanDuration::from_millis(50),
            redis_timeout: HumanDuration::from_millis(100),
            ttl_jitter: HumanDuration::from_secs(1),
            negative_ttl: DurationRange {
                shortest: HumanDuration::from_secs(1),
                longest: HumanDuration::from_secs(10),
            },
            node_ttl: HumanDuration::from_secs(30),
            capacity_ttl: HumanDuration::from_secs(3600),
            job_ttl: HumanDuration::from_secs(60),
            session_ttl: HumanDuration::from_secs(600),
            tombstone_ttl: HumanDuration::from_secs(3600),
            key_prefix: "stile".to_owned(),
            invalidation: Invalidation::default(),
        }
    }
}

impl From<&Registry> for stile_registry::Settings {
    fn from(registry: &Registry) -> Self {
        Self {
            l1_ttl: registry.l1_ttl.get(),
            l2_ttl: registry.l2_ttl.get(),
            version_check_timeout: registry.version_check_timeout.get(),
            redis_timeout: registry.redis_timeout.get(),
            ttl_jitter: registry.ttl_jitter.get(),
            negative_ttl: registry.negative_ttl.get(),
            node_ttl: registry.node_ttl.get(),
            capacity_ttl: registry.capacity_ttl.get(),
            job_ttl: registry.job_ttl.get(),
            session_ttl: registry.session_ttl.get(),
            tombstone_ttl: registry.tombstone_ttl.get(),
            key_prefix: registry.key_prefix.clone(),
            invalidation: match registry.invalidation {
                Invalidation::Tracking => stile_registry::Invalidation::Tracking,
                Invalidation::PubSub => stile_registry::Invalidation::PubSub,
                Invalidation::Off => stile_registry::Invalidation::Off,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Registry;

    #[test]
    fn the_defaults_are_those_of_the_registry() {
        let settings = stile_registry::Settings::from(&Registry::default());
        assert_eq!(settings, stile_registry::Settings::default());
    }
}
