//! Redis, and the node registry on it.

use super::Preset::{Unset, Value};
use super::{DAY_MS, HOUR_MS, Key, MINUTE_MS, SECOND_MS, Section, duration};
use crate::config::Invalidation;
use crate::config::value::{HumanDuration, Kind};

const REDIS_SCHEMES: &[&str] = &["redis", "rediss"];

pub(super) const REDIS: Section = Section {
    name: "redis",
    is_list: false,
    text: "The shared memory of a fleet. Optional: without it each node keeps the registry in its own \
           memory, and nodes learn of each other from the database.",
    keys: &[
        Key::new(
            "url",
            Kind::Url(REDIS_SCHEMES),
            Unset("no Redis: this node keeps to itself"),
            "Where Redis is; `rediss://` for TLS, several with commas in between for a cluster. Shown \
             and logged without its password.",
        ),
        Key::new(
            "password",
            Kind::Secret,
            Unset("the one in `redis.url`, if there is one"),
            "Where the password is kept.",
        ),
    ],
};

pub(super) const REGISTRY: Section = Section {
    name: "registry",
    is_list: false,
    text: "The node registry; see [registry](registry.md). All nodes of a cluster have the same values.",
    keys: &[
        Key::new(
            "l1_ttl",
            duration(1, HOUR_MS),
            Value("5s"),
            "How long what was read of a node is taken as it is.",
        ),
        Key::new(
            "l2_ttl",
            duration(1, DAY_MS),
            Value("30s"),
            "How long after that it is still answered with, while its version is checked behind the \
             answer. Not below `registry.l1_ttl`.",
        ),
        Key::new(
            "version_check_timeout",
            duration(1, MINUTE_MS),
            Value("50ms"),
            "How long such a check may take.",
        ),
        Key::new(
            "redis_timeout",
            duration(1, MINUTE_MS),
            Value("100ms"),
            "How long any call to Redis may take before it counts as failed.",
        ),
        Key::new(
            "ttl_jitter",
            duration(0, HOUR_MS),
            Value("1s"),
            "By how much, at random, times to live differ, so that not all is looked up at once.",
        ),
        Key::new(
            "negative_ttl",
            Kind::Range {
                min: HumanDuration::from_millis(0),
                max: HumanDuration::from_millis(HOUR_MS),
            },
            Value("1s-10s"),
            "The shortest and the longest time for which a node that there is not is not asked for again.",
        ),
        Key::new(
            "node_ttl",
            duration(100, DAY_MS),
            Value("30s"),
            "How long a node lives after its last heartbeat.",
        ),
        Key::new(
            "capacity_ttl",
            duration(SECOND_MS, 30 * DAY_MS),
            Value("1h"),
            "How long the slots of a node are remembered that nobody asks for. Not below \
             `registry.job_ttl`.",
        ),
        Key::new(
            "job_ttl",
            duration(100, DAY_MS),
            Value("60s"),
            "How long a job has its slot unless it is completed.",
        ),
        Key::new(
            "session_ttl",
            duration(SECOND_MS, 30 * DAY_MS),
            Value("10m"),
            "How long a session without jobs keeps its pool.",
        ),
        Key::new(
            "tombstone_ttl",
            duration(SECOND_MS, 30 * DAY_MS),
            Value("1h"),
            "How long removed nodes are remembered, so that a heartbeat that comes late does not bring \
             one back. Not below `registry.node_ttl`.",
        ),
        Key::new(
            "key_prefix",
            Kind::KeyPrefix,
            Value("stile"),
            "What all keys in Redis begin with. Each cluster has its own, if several share a Redis.",
        ),
        Key::new(
            "invalidation",
            Kind::Choice(Invalidation::NAMES),
            Value("tracking"),
            "How a node learns that another one has written: `\"tracking\"` by the client-side caching \
             of Redis (from version 6 on), `\"pub-sub\"` by a channel, `\"off\"` by looking alone. \
             Nothing depends on it but how soon.",
        ),
    ],
};
