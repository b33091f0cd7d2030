//! The kinds of faults there are.

use std::fmt;

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
    KillRedis = "kill redis",
    FreezeRedis = "freeze redis",
    WipeRedis = "wipe redis",
    CutRedis = "cut redis",
    EndpointRefuses = "endpoint refuses",
    EndpointSlow = "endpoint slow",
    EndpointLosesAnswers = "endpoint loses answers",
    EndpointForgets = "endpoint forgets",
    EndpointFails = "endpoint fails",
    EndpointRefusesSends = "endpoint refuses sends",
    EndpointHidesReceipts = "endpoint hides receipts",
    EndpointOldCounts = "endpoint has old counts",
    SideBlocks = "side blocks",
    Reorg = "reorg",
    Outsider = "outsider",
    EmptyPool = "empty pool",
    EmptyAccount = "empty account",
}

impl Kind {
    /// Whether it can come only where nodes share a Redis.
    pub fn needs_redis(self) -> bool {
        matches!(self, Self::KillRedis | Self::FreezeRedis | Self::WipeRedis | Self::CutRedis)
    }

    /// How many cards of it are in a deck. None of what a node is started with, and none of what hits
    /// a Redis that is not there.
    pub(super) fn cards(self, redis: bool) -> usize {
        match self {
            Self::ClockSkew => 0,
            _ if self.needs_redis() && !redis => 0,
            Self::Kill | Self::Stop | Self::Reorg | Self::Outsider | Self::EmptyPool => 2,
            _ => 1,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
