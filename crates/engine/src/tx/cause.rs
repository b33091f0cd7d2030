//! Why a transaction gets a new attempt, and what follows from that alone.

use stile_domain::{AttemptKind, Fees, Step};
use stile_store::{Wish, WishEnd};

/// Why a new attempt is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Chain nodes want a higher fee.
    Underpriced,
    /// It has not been mined for long.
    NotMined,
    /// Its caller wants it sooner, at these fees or at what the policy says.
    SpeedUp(Option<Fees>),
    /// Its caller withdraws it.
    Cancel,
    /// Chain nodes refuse it for good.
    GiveUp,
    /// Its account cannot pay what it offers, and the chain asks for much less by now.
    TooDear,
}

impl Cause {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Underpriced => "underpriced",
            Self::NotMined => "not-mined",
            Self::SpeedUp(_) => "speed-up",
            Self::Cancel => "cancel",
            Self::GiveUp => "give-up",
            Self::TooDear => "too-dear",
        }
    }

    /// Whether a caller wants it, and so has the last word about what it may cost.
    pub(crate) fn is_wish(self) -> bool {
        matches!(self, Self::SpeedUp(_) | Self::Cancel)
    }

    /// Whether the clock brings it back where nothing comes of it. Wishes are looked for in the store,
    /// what is refused for good is refused again, and what nobody asked for is not made by the clock.
    pub(crate) fn is_by_clock(self) -> bool {
        matches!(self, Self::Underpriced | Self::NotMined)
    }

    /// What becomes of the wish while it costs more than is allowed: a cancellation stays, since less may
    /// be enough once nobody has what it is to replace.
    pub(crate) fn at_limit(self) -> WishEnd {
        match self {
            Self::Cancel => WishEnd::Keep,
            other => other.granted(),
        }
    }

    /// The wish that is seen to.
    pub(crate) fn granted(self) -> WishEnd {
        match self {
            Self::SpeedUp(fees) => WishEnd::Granted(Wish::SpeedUp(fees)),
            Self::Cancel => WishEnd::Granted(Wish::Cancel),
            Self::Underpriced | Self::NotMined | Self::GiveUp | Self::TooDear => WishEnd::Keep,
        }
    }

    pub(crate) fn step(self) -> Step {
        match self {
            Self::Underpriced | Self::NotMined | Self::SpeedUp(_) | Self::TooDear => Step::Bumped,
            Self::Cancel => Step::CancelRequested,
            Self::GiveUp => Step::GivenUp,
        }
    }

    /// What the attempt is for, in place of one of this kind: one that does nothing is never
    /// replaced by one that does something again.
    pub(crate) fn kind(self, before: AttemptKind) -> AttemptKind {
        match (self, before) {
            (_, AttemptKind::Cancel | AttemptKind::GiveUp) => before,
            (Self::Cancel, _) => AttemptKind::Cancel,
            (Self::GiveUp, _) => AttemptKind::GiveUp,
            _ => AttemptKind::Bump,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hole_42_only_what_nobody_asked_for_waits_for_the_clock() {
        for (cause, by_clock, at_limit) in [
            (Cause::Underpriced, true, WishEnd::Keep),
            (Cause::NotMined, true, WishEnd::Keep),
            (Cause::SpeedUp(None), false, WishEnd::Granted(Wish::SpeedUp(None))),
            (Cause::Cancel, false, WishEnd::Keep),
            (Cause::GiveUp, false, WishEnd::Keep),
            (Cause::TooDear, false, WishEnd::Keep),
        ] {
            assert_eq!((cause.is_by_clock(), cause.at_limit()), (by_clock, at_limit), "{cause:?}");
        }
    }
}
