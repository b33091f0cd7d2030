//! What happens to lanes, as their histories name it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::UnknownName;
use crate::tx::names;

names! {
    /// The kinds of entries in a lane's history.
    LaneEventKind {
        /// Its cursor was set for the first time.
        Started = "STARTED",
        /// It gives out no nonces until somebody resumes it.
        Paused = "PAUSED",
        /// It gives out nonces again.
        Resumed = "RESUMED",
        /// Somebody else has used one of its nonces.
        OutsideUse = "OUTSIDE_USE",
        /// Its cursor moved past nonces that somebody else used.
        FollowedChain = "FOLLOWED_CHAIN",
        /// The chain has lost transactions that were final.
        ChainReset = "CHAIN_RESET",
        /// An empty transaction was made for a nonce that nobody would use.
        GapFilled = "GAP_FILLED",
        /// Its account cannot pay: nothing is sent until it can.
        Unfunded = "UNFUNDED",
        /// Its account can pay again.
        Funded = "FUNDED",
        /// The database lost its last commits, or was restored: the cursor was moved past all that can
        /// have been given out.
        Realigned = "REALIGNED",
        /// A person said what became of what waited on it after the database was restored.
        RestoreSettled = "RESTORE_SETTLED",
        /// Its nonces were taken over from V1.
        Imported = "IMPORTED",
        /// It became Stile's, or ceased to be.
        RolledOut = "ROLLED_OUT",
        /// A person had it mended.
        Repaired = "REPAIRED",
    }
}
