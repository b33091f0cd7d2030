//! Which nodes there are: the store says it. When it has to be asked: the registry says it.
//!
//! Whoever can write to Redis can say there what they like, of nodes that there are and of nodes that
//! there are not. So who a node is, which start of it and where it is reached, is only ever taken from
//! the store. What the registry can do is say that all of them were heard of lately, and so save the
//! question. Whatever else it says, that somebody is missing, that somebody is new, that one of them
//! is not what the store said, makes the store be asked, once a look at most: as often as it would be
//! if there were no registry.
//!
//! ```text
//!            knows everybody whom the store knows
//!   Store ─────────────────────────────────────────→ Registry ←──────────────┐
//!     ↑                                                  │ does not answer   │ answers again
//!     ├──────────────── for too long ──── LastKnown ←────┴───────────────────┘
//!     └── asked now and then, and whenever the registry says anything else, it lacks one: from Registry
//! ```

use std::time::{Duration, Instant};

use stile_domain::Timestamp;
use stile_store::LiveNode;

/// Where it was learned at the last look that the nodes live.
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
    /// The nodes as the store has told them.
    known: Vec<LiveNode>,
    answered: Instant,
    /// When the store was last asked.
    asked: Instant,
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
        Self { source: Source::Store, known: Vec::new(), answered: now, asked: now, within }
    }

    pub(super) fn source(&self) -> Source {
        self.source
    }

    /// What to go by now that the registry was asked; `None` if it did not answer.
    pub(super) fn listed(&mut self, listed: Option<Vec<LiveNode>>, now: Instant) -> Next {
        match (self.source, listed) {
            (Source::Registry | Source::LastKnown, Some(listed))
                if now.saturating_duration_since(self.asked) < self.within
                    && says_the_same(&listed, &self.known, self.within) =>
            {
                (self.source, self.answered) = (Source::Registry, now);
                Next::Take(heard_again(self.known.clone(), &listed))
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

    /// What to go by, given what the store says, too: the store's nodes. A registry that has lost its
    /// memory, or that some nodes do not use, does not know all of them, and cannot say that they
    /// live.
    pub(super) fn stored(
        &mut self,
        stored: Vec<LiveNode>,
        listed: Option<Vec<LiveNode>>,
        now: Instant,
    ) -> Vec<LiveNode> {
        self.asked = now;
        self.known.clone_from(&stored);
        match listed {
            Some(listed) if knows_all(&listed, &stored, self.within) => {
                (self.source, self.answered) = (Source::Registry, now);
                heard_again(stored, &listed)
            }
            _ => {
                self.source = Source::Store;
                stored
            }
        }
    }
}

/// Whether two are the same start of the same node, reached at the same place.
fn is_same(one: &LiveNode, other: &LiveNode) -> bool {
    one.record.holder == other.record.holder
}

fn find<'a>(nodes: &'a [LiveNode], node: &LiveNode) -> Option<&'a LiveNode> {
    nodes.iter().find(|other| is_same(other, node))
}

/// The latest moment at which one of the known ones was heard of, by the clock of the list.
fn newest(listed: &[LiveNode], known: &[LiveNode]) -> Timestamp {
    let theirs = known.iter().filter_map(|node| find(listed, node)).map(|node| node.seen_at);
    theirs.max().unwrap_or(Timestamp::UNIX_EPOCH)
}

fn is_lately(node: &LiveNode, newest: Timestamp, within: Duration) -> bool {
    newest.duration_since(node.seen_at).as_secs_f64() < within.as_secs_f64()
}

/// Whether everybody who is known is in the list, and was heard of within this time, by the clock that
/// all of them were heard by.
fn knows_all(listed: &[LiveNode], known: &[LiveNode], within: Duration) -> bool {
    let newest = newest(listed, known);
    known.iter().all(|node| find(listed, node).is_some_and(|it| is_lately(it, newest, within)))
}

/// Whether the list has them, as they were told of themselves, and nobody else who was heard of
/// lately.
fn says_the_same(listed: &[LiveNode], known: &[LiveNode], within: Duration) -> bool {
    let newest = newest(listed, known);
    let mut lately = listed.iter().filter(|node| is_lately(node, newest, within));
    knows_all(listed, known, within)
        && lately.all(|node| find(known, node).is_some_and(|known| known.record == node.record))
}

/// These nodes, with when they were last heard of.
fn heard_again(mut nodes: Vec<LiveNode>, listed: &[LiveNode]) -> Vec<LiveNode> {
    for node in &mut nodes {
        let heard = find(listed, node).map(|listed| listed.seen_at);
        node.seen_at = heard.unwrap_or(node.seen_at);
    }
    nodes
}

#[cfg(test)]
mod tests;
