//! Nodes that there are not, remembered for a moment and in this process, where it saves the round
//! trip.

use std::time::Duration;

use super::Map;
use crate::NodeId;
use crate::clock::{Moment, between};

/// Whoever asks for more names than this that do not exist is not served any faster.
const MOST: usize = 100_000;

#[derive(Debug)]
pub(crate) struct Negative {
    ttl: (Duration, Duration),
    until: Map<NodeId, Moment>,
}

impl Negative {
    pub(crate) fn new(ttl: (Duration, Duration)) -> Self {
        Self { ttl, until: Map::default() }
    }

    pub(crate) fn contains(&self, id: &str, now: Moment) -> bool {
        self.until.pin().get(id).is_some_and(|until| now < *until)
    }

    pub(crate) fn insert(&self, id: NodeId, now: Moment) {
        let until = self.until.pin();
        if until.len() < MOST {
            until.insert(id, now.plus(between(self.ttl.0, self.ttl.1)));
        }
    }

    pub(crate) fn remove(&self, id: &NodeId) {
        self.until.pin().remove(id.as_str());
    }

    pub(crate) fn sweep(&self, now: Moment) {
        self.until.pin().retain(|_, until| now < *until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_miss_is_remembered_for_its_time_and_forgotten_by_a_word() {
        let negative = Negative::new((Duration::from_secs(1), Duration::from_secs(10)));
        let id = NodeId::new("nobody").unwrap();
        let start = Moment(1);
        negative.insert(id.clone(), start);
        assert!(negative.contains("nobody", start.plus(Duration::from_millis(999))));
        assert!(!negative.contains("nobody", start.plus(Duration::from_secs(10))));
        negative.remove(&id);
        assert!(!negative.contains("nobody", start));
        negative.insert(id, start);
        negative.sweep(start.plus(Duration::from_secs(11)));
        assert!(negative.until.pin().is_empty());
    }
}
