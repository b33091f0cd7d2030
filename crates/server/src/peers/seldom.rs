//! Warnings about other nodes: each is for every call, and told once a minute.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use stile_domain::NodeId;

/// How often the same is told of the same node.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// What was told of whom, and when.
#[derive(Debug, Default)]
pub(super) struct Seldom(Mutex<HashMap<(NodeId, Warning), Instant>>);

/// What there is to warn of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Warning {
    /// A call would go to it in the clear.
    Unsafe,
    /// It does not take calls from this node.
    Refuses,
}

impl Seldom {
    /// Whether it is time to tell. What was told longer ago is forgotten, so no more is kept than there
    /// are nodes to tell of in a minute.
    pub(super) fn is_due(&self, node: &NodeId, warning: Warning, now: Instant) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|_, at| now.saturating_duration_since(*at) < TELL_EVERY);
        let key = (node.clone(), warning);
        if told.contains_key(&key) {
            return false;
        }
        told.insert(key, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hole_40_the_same_of_the_same_node_is_told_once_a_minute() {
        let (seldom, begin) = (Seldom::default(), Instant::now());
        for (second, node, warning, due) in [
            (0, "a", Warning::Unsafe, true),
            (0, "a", Warning::Unsafe, false),
            (0, "b", Warning::Unsafe, true),
            (1, "a", Warning::Refuses, true),
            (59, "a", Warning::Unsafe, false),
            (60, "a", Warning::Unsafe, true),
            (60, "a", Warning::Unsafe, false),
            (60, "a", Warning::Refuses, false),
        ] {
            let now = begin + Duration::from_secs(second);
            let is_due = seldom.is_due(&NodeId(node.into()), warning, now);
            assert_eq!(is_due, due, "{warning:?} of {node} at {second} s");
        }
        seldom.is_due(&NodeId("c".into()), Warning::Unsafe, begin + 3 * TELL_EVERY);
        assert_eq!(seldom.0.lock().unwrap().len(), 1, "what was told long ago is forgotten");
    }
}
