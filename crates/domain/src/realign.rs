//! A lane in another history of the database.
//!
//! A standby that had not heard of the last commits, or a backup, brings back old cursors and old
//! tokens. What was given out in the history that is lost cannot be read any more; it can only be
//! stepped over.

use std::ops::Range;
use std::sync::Arc;

use crate::{LaneMemory, Nonce};

/// How far a token is raised at least. Tokens rise by one at each change of holder, pause or
/// resume: so many do not happen to a lane between a backup and its loss.
const TOKEN_STRIDE: u64 = 1_000_000;

/// What the operator says about failovers of the database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Failover {
    /// Nothing: commits may be lost, and a person is asked.
    #[default]
    Ask,
    /// They go to a synchronous standby, which has every commit that was answered.
    Synchronous,
}

/// How the database came to another history than a lane's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryChange {
    /// A standby was promoted, as far as can be seen.
    Promotion,
    /// The same, and a node has seen commits that are not there any more.
    Lossy,
    /// The server was recovered to a point in time.
    PointInTime,
    /// The tables were loaded from a dump, or an older file was put back.
    Copy,
}

impl HistoryChange {
    /// Whether commits may be lost: then nothing that waits is sent by itself.
    pub fn may_lose(self, failover: Failover) -> bool {
        !matches!((self, failover), (Self::Promotion, Failover::Synchronous))
    }
}

/// Why nonces are on record that only a node remembers.
pub const REMEMBERED: &str = "given out before the database lost its last commits";

/// The chain's count alone has a lane realigned: nothing else says that commits are missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ahead {
    /// Why.
    pub reason: String,
    /// Once what the chain has is read, the lane goes on without a person's word.
    pub settles_itself: bool,
    /// The history of the database in which that was found, as a store names it. In another one commits may
    /// be missing by now, and it says nothing.
    pub history: String,
}

impl Ahead {
    /// The same, if the database is in that history still.
    pub fn still_in(&self, history: &str) -> Option<&Self> {
        (self.history == history).then_some(self)
    }
}

/// What is known of a lane besides what the database says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The first nonce that the chain has not seen used; `None` where it is not to be asked.
    pub used: Option<Nonce>,
    /// The first nonce above all that this node has given out or seen given out.
    pub given_out: Nonce,
    /// The highest token that this node has seen on the lane.
    pub token: u64,
    /// What the operator says about failovers.
    pub failover: Failover,
    /// What this node wrote for the lane, if it has held it all the time; see [`Self::lost_bindings`].
    pub memory: Option<Arc<LaneMemory>>,
    /// Why the lane is realigned, if the chain's count alone says so.
    pub ahead: Option<Ahead>,
    /// Whether some endpoint has transactions of the account beyond the cursor in its pool.
    pub pooled: bool,
    /// Who else uses the key.
    pub others: Others,
}

/// Who uses a key besides Stile, so that the chain may be ahead of any database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Others {
    /// Nobody, as far as is known.
    #[default]
    None,
    /// Others, by declaration.
    Declared,
    /// Whoever has the lane: it is not Stile's yet, or not any more.
    Owner,
}

/// What tells that commits are missing though a standby is said to have had them all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Nothing.
    Unseen,
    /// The chain is ahead of this lane. Others use its key by declaration, so it may be theirs.
    OfThisLane,
    /// Commits of the database are missing: none of its lanes is taken for whole.
    OfTheDatabase,
}

impl Remembered {
    /// The first nonce that nobody can have: past the lane's own cursor, past the highest nonce on
    /// record, past what the chain has seen used, and past what this node remembers.
    pub fn cursor(&self, cursor: Nonce, highest: Option<Nonce>) -> Nonce {
        let recorded = highest.map_or(0, |nonce| nonce + 1);
        cursor.max(recorded).max(self.used.unwrap_or(0)).max(self.given_out)
    }

    /// Whether commits are missing, whatever the operator says about failovers: this node has seen
    /// nonces given out, or a token, that this history of the database does not know; or the chain has
    /// seen nonces used, or has them in a pool, that it has never given out.
    pub fn shows_a_loss(&self, cursor: Nonce, highest: Option<Nonce>, token: u64) -> Loss {
        let recorded = cursor.max(highest.map_or(0, |nonce| nonce + 1));
        if self.given_out > recorded || self.token > token {
            return Loss::OfTheDatabase;
        }
        let is_ahead = self.pooled || self.used.is_some_and(|used| used > recorded);
        match self.others {
            Others::None if is_ahead => Loss::OfTheDatabase,
            Others::Declared if is_ahead => Loss::OfThisLane,
            _ => Loss::Unseen,
        }
    }

    /// The nonces that are stepped over only because this node remembers to have given them out: the
    /// chain has not seen them used, and the database does not know them.
    pub fn only_remembered(&self, cursor: Nonce, highest: Option<Nonce>) -> Range<Nonce> {
        let known = Self { given_out: 0, ..self.clone() }.cursor(cursor, highest);
        known..self.given_out.max(known)
    }

    /// A token above all that anybody can have seen.
    pub fn token_above(&self, token: u64) -> u64 {
        (token + TOKEN_STRIDE).max(self.token + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Remembered = Remembered {
        used: None,
        given_out: 0,
        token: 0,
        failover: Failover::Ask,
        memory: None,
        ahead: None,
        pooled: false,
        others: Others::None,
    };

    #[test]
    fn hole_20_a_chain_that_is_ahead_of_the_database_shows_a_loss() {
        use Loss::{OfTheDatabase, OfThisLane, Unseen};
        let (none, declared, owner) = (Others::None, Others::Declared, Others::Owner);
        for (used, pooled, cursor, highest, others, shows) in [
            (None, false, 5, None, none, Unseen),
            (Some(5), false, 5, None, none, Unseen),
            (Some(7), false, 5, None, none, OfTheDatabase),
            (Some(7), false, 5, Some(6), none, Unseen),
            (Some(7), false, 5, Some(5), none, OfTheDatabase),
            // Not mined yet.
            (Some(5), true, 5, None, none, OfTheDatabase),
            // It may be theirs.
            (Some(7), false, 5, None, declared, OfThisLane),
            (Some(5), true, 5, None, declared, OfThisLane),
            (Some(5), false, 5, None, declared, Unseen),
            (Some(7), true, 5, None, owner, Unseen),
        ] {
            let remembered = Remembered { used, pooled, others, ..NOTHING };
            let found = remembered.shows_a_loss(cursor, highest, 0);
            assert_eq!(found, shows, "{used:?} {pooled} {cursor} {others:?}");
        }
    }

    #[test]
    fn hole_20_what_a_node_has_seen_and_the_database_does_not_know_shows_a_loss() {
        for (given_out, seen, token, others, shows) in [
            (5, 9, 9, Others::None, Loss::Unseen),
            (6, 9, 9, Others::None, Loss::OfTheDatabase),
            (6, 9, 9, Others::Owner, Loss::OfTheDatabase),
            (5, 10, 9, Others::Declared, Loss::OfTheDatabase),
            (0, 0, 9, Others::None, Loss::Unseen),
        ] {
            let remembered = Remembered { given_out, token: seen, others, ..NOTHING };
            let found = remembered.shows_a_loss(5, None, token);
            assert_eq!(found, shows, "{given_out} {seen} {token}");
        }
    }

    #[test]
    fn the_cursor_goes_past_everything_that_is_known_and_never_back() {
        assert_eq!(NOTHING.cursor(5, None), 5);
        assert_eq!(NOTHING.cursor(5, Some(7)), 8);
        assert_eq!(Remembered { used: Some(9), ..NOTHING }.cursor(5, Some(7)), 9);
        assert_eq!(Remembered { used: Some(3), ..NOTHING }.cursor(5, Some(7)), 8);
        assert_eq!(Remembered { given_out: 12, used: Some(9), ..NOTHING }.cursor(5, Some(7)), 12);
    }

    #[test]
    fn only_a_promoted_synchronous_standby_has_lost_nothing() {
        use Failover::{Ask, Synchronous};
        use HistoryChange::{Copy, Lossy, PointInTime, Promotion};
        for (change, failover, may_lose) in [
            (Promotion, Ask, true),
            (Promotion, Synchronous, false),
            (Lossy, Ask, true),
            (Lossy, Synchronous, true),
            (PointInTime, Ask, true),
            (PointInTime, Synchronous, true),
            (Copy, Ask, true),
            (Copy, Synchronous, true),
        ] {
            assert_eq!(change.may_lose(failover), may_lose, "{change:?} {failover:?}");
        }
    }

    #[test]
    fn what_only_a_node_remembers_is_above_all_that_is_known() {
        assert!(NOTHING.only_remembered(5, None).is_empty());
        let remembers = Remembered { given_out: 12, ..NOTHING };
        assert_eq!(remembers.only_remembered(5, None), 5..12);
        assert_eq!(remembers.only_remembered(5, Some(7)), 8..12);
        assert_eq!(
            Remembered { used: Some(9), ..remembers.clone() }.only_remembered(5, Some(7)),
            9..12
        );
        assert!(Remembered { used: Some(14), ..remembers }.only_remembered(5, None).is_empty());
    }

    #[test]
    fn the_token_goes_past_those_that_others_may_have_seen() {
        assert_eq!(NOTHING.token_above(5), 1_000_005);
        assert_eq!(Remembered { token: 2_000_000, ..NOTHING }.token_above(5), 2_000_001);
    }
}
