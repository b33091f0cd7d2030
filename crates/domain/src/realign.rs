//! A lane in another history of the database.
//!
//! A standby that had not heard of the last commits, or a backup, brings back old cursors and old
//! tokens. What was given out in the history that is lost cannot be read any more; it can only be
//! stepped over.

use crate::Nonce;

/// How far a token is raised at least. Tokens rise by one at each change of holder, pause or
/// resume: so many do not happen to a lane between a backup and its loss.
const TOKEN_STRIDE: u64 = 1_000_000;

/// What is known of a lane besides what the database says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The first nonce that the chain has not seen used; `None` where it is not to be asked.
    pub used: Option<Nonce>,
    /// The first nonce above all that this node has given out or seen given out.
    pub given_out: Nonce,
    /// The highest token that this node has seen on the lane.
    pub token: u64,
}

impl Remembered {
    /// The first nonce that nobody can have: past the lane's own cursor, past the highest nonce on
    /// record, past what the chain has seen used, and past what this node remembers.
    pub fn cursor(&self, cursor: Nonce, highest: Option<Nonce>) -> Nonce {
        let recorded = highest.map_or(0, |nonce| nonce + 1);
        cursor.max(recorded).max(self.used.unwrap_or(0)).max(self.given_out)
    }

    /// A token above all that anybody can have seen.
    pub fn token_above(&self, token: u64) -> u64 {
        (token + TOKEN_STRIDE).max(self.token + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Remembered = Remembered { used: None, given_out: 0, token: 0 };

    #[test]
    fn the_cursor_goes_past_everything_that_is_known_and_never_back() {
        assert_eq!(NOTHING.cursor(5, None), 5);
        assert_eq!(NOTHING.cursor(5, Some(7)), 8);
        assert_eq!(Remembered { used: Some(9), ..NOTHING }.cursor(5, Some(7)), 9);
        assert_eq!(Remembered { used: Some(3), ..NOTHING }.cursor(5, Some(7)), 8);
        assert_eq!(Remembered { given_out: 12, used: Some(9), token: 0 }.cursor(5, Some(7)), 12);
    }

    #[test]
    fn the_token_goes_past_those_that_others_may_have_seen() {
        assert_eq!(NOTHING.token_above(5), 1_000_005);
        assert_eq!(Remembered { token: 2_000_000, ..NOTHING }.token_above(5), 2_000_001);
    }
}
