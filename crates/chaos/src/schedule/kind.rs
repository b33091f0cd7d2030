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
    /// How many cards of it are in a deck. None of what a node is started with.
    pub(super) fn cards(self) -> usize {
        match self {
            Self::ClockSkew => 0,
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
