//! A cursor that the chain is ahead of, where nothing else says that commits are missing.
//!
//! That is known by this process alone, from the moment in which the lane is set unaligned until it is
//! realigned. Both may be far apart while the chain hangs. If the lane changes hands in between, or the
//! database its history, commits may be missing after all: then it says nothing any more.

use stile_domain::Ahead;

/// Why a lane is to be realigned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Behind {
    /// Why, and in which history of the database that was found. The store compares that when it realigns.
    pub(crate) ahead: Ahead,
    /// The token under which it was found.
    pub(crate) token: u64,
}

impl Behind {
    /// Why, for whoever holds the lane under this token: under another one somebody else may have had it.
    pub(crate) fn under(&self, token: u64) -> Option<&Ahead> {
        (self.token == token).then_some(&self.ahead)
    }

    /// The same after the end of a pause, which raises the token by one.
    pub(crate) fn resumed(self) -> Self {
        Self { token: self.token + 1, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hole_20_why_a_lane_is_behind_is_forgotten_when_it_changes_hands() {
        let ahead = Ahead {
            reason: "the chain has more".to_owned(),
            settles_itself: true,
            history: "one".to_owned(),
        };
        let behind = Behind { ahead: ahead.clone(), token: 7 };
        for (token, expected) in [(6, None), (7, Some(&ahead)), (8, None), (1_000_007, None)] {
            assert_eq!(behind.under(token), expected, "{token}");
        }
        let resumed = behind.resumed();
        for (token, expected) in [(7, None), (8, Some(&ahead)), (9, None)] {
            assert_eq!(resumed.under(token), expected, "{token} after the pause");
        }
        assert_eq!(ahead.still_in("one"), Some(&ahead));
        assert_eq!(ahead.still_in("two"), None);
    }
}
