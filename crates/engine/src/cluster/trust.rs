//! Whose word about the nodes is taken: that of the registry, or that of the store.
//!
//! ```text
//!            knows everybody whom the store knows
//!   Store ─────────────────────────────────────────→ Registry ←──────────────┐
//!     ↑                                                  │ does not answer   │ answers again
//!     ├──────────────── for too long ──── LastKnown ←────┴───────────────────┘
//!     └── compared now and then, and whenever somebody is missing, the registry lacks one: from Registry
//! ```

use std::time::{Duration, Instant};

use stile_domain::Timestamp;
use stile_store::LiveNode;

/// Where the nodes were learned from at the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The registry.
    Registry,
    /// The registry, before it stopped to answer.
    LastKnown,
    /// The store.
    Store,
}

/// What was learned, and from whom.
#[derive(Debug)]
pub(super) struct Trust {
    source: Source,
    known: Vec<LiveNode>,
    answered: Instant,
    /// When it was last held against the store.
    compared: Instant,
    /// Whoever was silent for so long is gone; so is a registry.
    within: Duration,
}

/// What follows from one question to the registry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// These are the nodes.
    Take(Vec<LiveNode>),
    /// The store has to be asked; [`Trust::stored`] says what its answer means.
    AskStore { listed: Option<Vec<LiveNode>> },
}

impl Trust {
    pub(super) fn new(within: Duration) -> Self {
        let now = Instant::now();
        Self { source: Source::Store, known: Vec::new(), answered: now, compared: now, within }
    }

    pub(super) fn source(&self) -> Source {
        self.source
    }

    /// What to go by now that the registry was asked; `None` if it did not answer.
    pub(super) fn listed(&mut self, listed: Option<Vec<LiveNode>>, now: Instant) -> Next {
        let listed = listed.map(|listed| heard_of(listed, self.within));
        match (self.source, listed) {
            // Whoever is missing may have left, or the registry has lost its memory.
            (Source::Registry | Source::LastKnown, Some(listed))
                if now.saturating_duration_since(self.compared) < self.within
                    && knows_all(&listed, &self.known) =>
            {
                Next::Take(self.believe(listed, now))
            }
            (Source::Registry | Source::LastKnown, None)
                if now.saturating_duration_since(self.answered) < self.within =>
            {
                self.source = Source::LastKnown;
                Next::Take(self.known.clone())
            }
            (_, listed) => Next::AskStore { listed },
        }
    }

    /// What to go by, given what the store says, too. A registry that has lost its memory, or that
    /// some nodes do not use, knows fewer nodes than there are, and is not believed.
    pub(super) fn stored(
        &mut self,
        stored: Vec<LiveNode>,
        listed: Option<Vec<LiveNode>>,
        now: Instant,
    ) -> Vec<LiveNode> {
        self.compared = now;
        match listed {
            Some(listed) if knows_all(&listed, &stored) => self.believe(listed, now),
            _ => {
                self.source = Source::Store;
                stored
            }
        }
    }

    fn believe(&mut self, listed: Vec<LiveNode>, now: Instant) -> Vec<LiveNode> {
        (self.source, self.answered) = (Source::Registry, now);
        self.known.clone_from(&listed);
        listed
    }
}

/// Those who were heard of within this time, by the clock that all of them were heard by.
fn heard_of(mut nodes: Vec<LiveNode>, within: Duration) -> Vec<LiveNode> {
    let newest = nodes.iter().map(|node| node.seen_at).max().unwrap_or(Timestamp::UNIX_EPOCH);
    nodes.retain(|node| newest.duration_since(node.seen_at).unsigned_abs() < within);
    nodes
}

fn knows_all(listed: &[LiveNode], others: &[LiveNode]) -> bool {
    let known = |node: &LiveNode| {
        listed.iter().any(|one| one.record.holder.incarnation == node.record.holder.incarnation)
    };
    others.iter().all(known)
}

#[cfg(test)]
mod tests {
    use stile_domain::{Holder, Incarnation, NodeId, NodeMode};
    use stile_store::NodeRecord;

    use super::*;

    const WITHIN: Duration = Duration::from_secs(9);

    fn node(name: &str, seen_ms: i64) -> LiveNode {
        let number = name.bytes().fold(0, |number, byte| number * 256 + u128::from(byte));
        let holder = Holder {
            node: NodeId(name.into()),
            incarnation: Incarnation(uuid::Uuid::from_u128(number)),
            url: None,
        };
        let at = Timestamp::from_millisecond(seen_ms).unwrap();
        LiveNode {
            record: NodeRecord {
                holder,
                mode: NodeMode::WorkerQueue,
                serves: String::new(),
                draining: false,
            },
            started_at: at,
            seen_at: at,
        }
    }

    fn names(nodes: &[LiveNode]) -> String {
        nodes.iter().map(|node| node.node().0.as_str()).collect()
    }

    /// Asks once; the store has these nodes.
    fn look(trust: &mut Trust, listed: Option<&[LiveNode]>, stored: &str, now: Instant) -> String {
        let nodes = match trust.listed(listed.map(<[LiveNode]>::to_vec), now) {
            Next::Take(nodes) => nodes,
            Next::AskStore { listed } => {
                let stored = stored.chars().map(|name| node(&name.to_string(), 0)).collect();
                trust.stored(stored, listed, now)
            }
        };
        names(&nodes)
    }

    #[test]
    fn the_registry_is_believed_once_it_knows_everybody() {
        let (mut trust, now) = (Trust::new(WITHIN), Instant::now());
        let a = [node("a", 1000)];
        assert_eq!(look(&mut trust, Some(&a), "ab", now), "ab");
        assert_eq!(trust.source(), Source::Store);
        let both = [node("a", 1000), node("b", 1000)];
        assert_eq!(look(&mut trust, Some(&both), "ab", now), "ab");
        assert_eq!(trust.source(), Source::Registry);
        assert_eq!(look(&mut trust, Some(&both), "(not asked)", now), "ab");
    }

    #[test]
    fn whoever_is_missing_is_looked_for_in_the_store() {
        let (mut trust, now) = (Trust::new(WITHIN), Instant::now());
        let (a, both) = ([node("a", 1000)], [node("a", 1000), node("b", 1000)]);
        look(&mut trust, Some(&both), "ab", now);
        assert_eq!(look(&mut trust, Some(&a), "ab", now), "ab", "its memory is lost");
        assert_eq!(trust.source(), Source::Store);
        look(&mut trust, Some(&both), "ab", now);
        assert_eq!(look(&mut trust, Some(&a), "a", now), "a", "b has left");
        assert_eq!(trust.source(), Source::Registry);
        assert_eq!(look(&mut trust, Some(&a), "(not asked)", now), "a");
    }

    #[test]
    fn while_it_is_away_the_last_known_serve_and_then_the_store_is_asked() {
        let (mut trust, now) = (Trust::new(WITHIN), Instant::now());
        let both = [node("a", 1000), node("b", 1000)];
        look(&mut trust, Some(&both), "ab", now);
        let soon = now + WITHIN - Duration::from_millis(1);
        assert_eq!(look(&mut trust, None, "(not asked)", soon), "ab");
        assert_eq!(trust.source(), Source::LastKnown);
        assert_eq!(look(&mut trust, None, "abc", now + WITHIN), "abc");
        assert_eq!(trust.source(), Source::Store);
        // It comes back without its memory, and learns.
        let a = [node("a", 9000)];
        assert_eq!(look(&mut trust, Some(&a), "abc", now + WITHIN), "abc");
        let all = [node("a", 9000), node("b", 9000), node("c", 9000)];
        assert_eq!(look(&mut trust, Some(&all), "abc", now + WITHIN), "abc");
        assert_eq!(trust.source(), Source::Registry);
    }

    #[test]
    fn a_short_silence_is_forgotten() {
        let (mut trust, now) = (Trust::new(WITHIN), Instant::now());
        let both = [node("a", 1000), node("b", 1000)];
        look(&mut trust, Some(&both), "ab", now);
        look(&mut trust, None, "(not asked)", now + WITHIN / 2);
        assert_eq!(look(&mut trust, Some(&both), "(not asked)", now + WITHIN / 2), "ab");
        assert_eq!(trust.source(), Source::Registry);
        let late = now + WITHIN / 2 + WITHIN - Duration::from_millis(1);
        assert_eq!(look(&mut trust, None, "(not asked)", late), "ab");
    }

    #[test]
    fn a_node_that_the_registry_never_hears_of_is_noticed() {
        let (mut trust, now) = (Trust::new(WITHIN), Instant::now());
        let a = [node("a", 1000)];
        assert_eq!(look(&mut trust, Some(&a), "a", now), "a");
        let soon = now + WITHIN - Duration::from_millis(1);
        assert_eq!(look(&mut trust, Some(&a), "(not asked)", soon), "a");
        assert_eq!(look(&mut trust, Some(&a), "ab", now + WITHIN), "ab");
        assert_eq!(trust.source(), Source::Store);
    }

    #[test]
    fn who_was_silent_for_long_is_gone() {
        let (mut trust, now) = (Trust::new(WITHIN), Instant::now());
        let nodes = [node("a", 10_000), node("b", 1001), node("c", 1000)];
        assert_eq!(look(&mut trust, Some(&nodes), "ab", now), "ab");
    }
}
