//! The kinds of faults there are.

use std::fmt;

use super::Cast;

macro_rules! kinds {
    ($($kind:ident = $name:literal),+ $(,)?) => {
        /// A kind of fault, by which faults are dealt and counted.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind {
            $(#[doc = $name] $kind),+
        }

        impl Kind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name),+
                }
            }
        }
    };
}

kinds! {
    Kill = "kill",
    Restart = "restart",
    Stop = "stop",
    ClockSkew = "clock skew",
    CutStore = "cut store",
    FreezeStore = "freeze store",
    LoseCommit = "lose commit",
    CrashStore = "crash store",
    Promote = "promote standby",
    Restore = "restore a backup",
    PromoteLagging = "promote lagging standby",
    KillRedis = "kill redis",
    FreezeRedis = "freeze redis",
    WipeRedis = "wipe redis",
    CutRedis = "cut redis",
    HostileRedis = "hostile redis",
    EndpointRefuses = "endpoint refuses",
    EndpointSlow = "endpoint slow",
    EndpointLosesAnswers = "endpoint loses answers",
    EndpointForgets = "endpoint forgets",
    EndpointFails = "endpoint fails",
    EndpointRefusesSends = "endpoint refuses sends",
    EndpointHidesReceipts = "endpoint hides receipts",
    EndpointOldCounts = "endpoint has old counts",
    EndpointReadOnly = "endpoint is read-only",
    LiarBlocks = "liar makes up blocks",
    LiarLeap = "liar leaps ahead",
    LiarReceipts = "liar makes up receipts",
    LiarFlap = "head goes back and forth",
    SideBlocks = "side blocks",
    UnknownWords = "unknown words",
    ChainHangs = "chain hangs",
    EstimatesHang = "estimates hang",
    Reorg = "reorg",
    Outsider = "outsider",
    EmptyPool = "empty pool",
    EmptyAccount = "empty account",
}

impl Kind {
    /// Whether it can come only where nodes share a Redis.
    pub fn needs_redis(self) -> bool {
        matches!(
            self,
            Self::KillRedis
                | Self::FreezeRedis
                | Self::WipeRedis
                | Self::CutRedis
                | Self::HostileRedis
        )
    }

    /// Whether it loses what was answered, and comes only in runs that are about that.
    pub fn needs_restores(self) -> bool {
        matches!(self, Self::Restore | Self::PromoteLagging)
    }

    /// Whether it needs a standby that has every commit, which runs about lost ones do not have.
    pub fn needs_synchronous_standby(self) -> bool {
        self == Self::Promote
    }

    /// Whether it can come in a run with or without Redis, that is or is not about lost commits.
    pub fn can_come(self, redis: bool, restores: bool) -> bool {
        (redis || !self.needs_redis())
            && (restores || !self.needs_restores())
            && !(restores && self.needs_synchronous_standby())
    }

    /// The kind with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// How many cards of it are in a deck. None of what a node is started with, and none of what
    /// cannot come.
    pub(super) fn cards(self, cast: &Cast) -> usize {
        match self {
            Self::ClockSkew => 0,
            _ if !self.can_come(cast.redis, cast.restores) || !cast.kinds.has(self) => 0,
            Self::Kill | Self::Stop | Self::Reorg | Self::Outsider | Self::EmptyPool => 2,
            _ => 1,
        }
    }
}

/// Some of the kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kinds(u64);

impl Kinds {
    /// Every kind.
    pub const ALL: Self = Self(u64::MAX);

    /// These.
    pub fn of(kinds: &[Kind]) -> Self {
        Self(kinds.iter().fold(0, |bits, kind| bits | 1 << *kind as u32))
    }

    /// Whether this one is among them.
    pub fn has(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u32) != 0
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_their_names() {
        assert!(Kind::ALL.iter().all(|kind| Kind::named(kind.name()) == Some(*kind)));
        assert_eq!(Kind::named("earthquake"), None);
        assert!(Kind::ALL.len() <= 64, "each has a bit of its own");
    }

    #[test]
    fn a_set_has_what_it_was_made_of() {
        let some = Kinds::of(&[Kind::Kill, Kind::EmptyAccount]);
        let found: Vec<Kind> = Kind::ALL.iter().copied().filter(|kind| some.has(*kind)).collect();
        assert_eq!(found, [Kind::Kill, Kind::EmptyAccount]);
        assert!(Kind::ALL.iter().all(|kind| Kinds::ALL.has(*kind)));
    }
}
