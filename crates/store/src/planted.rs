//! Bugs put in on purpose, for the history checker to find.
//!
//! Only in builds with the feature `planted-bugs`, and there only the one that the environment
//! names. Without the feature neither this file nor the places that ask it are compiled.

use std::sync::LazyLock;

/// The environment variable that names the bug to have.
pub const VARIABLE: &str = "STILE_PLANTED_BUG";

/// What is wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Writes of a lane's holder do not look at its token.
    UnfencedWrite,
    /// Giving a lane back deletes its row, and its token with it.
    ReleaseDeletes,
    /// What is sent again is signed again, and not stored.
    SignedAgain,
    /// A nonce whose caller took too long is given to somebody else.
    HeldReissued,
    /// A receipt counts whatever block it is from.
    SideBlock,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::UnfencedWrite,
        Self::ReleaseDeletes,
        Self::SignedAgain,
        Self::HeldReissued,
        Self::SideBlock,
    ];

    /// Its name in the environment.
    pub fn name(self) -> &'static str {
        match self {
            Self::UnfencedWrite => "unfenced-write",
            Self::ReleaseDeletes => "release-deletes",
            Self::SignedAgain => "signed-again",
            Self::HeldReissued => "held-reissued",
            Self::SideBlock => "side-block",
        }
    }

    /// Whether this process has it.
    ///
    /// Panics if the environment names none of them: a checker that finds nothing in a process without
    /// a bug has proved nothing.
    pub fn is_planted(self) -> bool {
        static PLANTED: LazyLock<Option<Bug>> = LazyLock::new(|| {
            let name = std::env::var(VARIABLE).ok()?;
            let bug = Bug::ALL.into_iter().find(|bug| bug.name() == name);
            Some(bug.unwrap_or_else(|| panic!("{VARIABLE}: there is no bug {name}")))
        });
        *PLANTED == Some(self)
    }
}
