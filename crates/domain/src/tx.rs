//! The life of a managed transaction: one pure function from where it stands and what happened to
//! where it stands then.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A managed transaction's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TxId(pub Uuid);

impl fmt::Display for TxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

macro_rules! names {
    ($(#[$doc:meta])* $type:ident { $($(#[$variant_doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $type {
            $($(#[$variant_doc])* #[serde(rename = $name)] $variant,)*
        }

        impl $type {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name used in the database, in JSON and in logs.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $type {
            type Err = UnknownName;
            fn from_str(text: &str) -> Result<Self, UnknownName> {
                Self::ALL.iter().copied().find(|it| it.name() == text).ok_or(UnknownName)
            }
        }
    };
}

/// A text that names nothing of the kind asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not a name of this kind")]
pub struct UnknownName;

names! {
    /// Where a transaction stands.
    TxState {
        /// Accepted; no nonce yet.
        Created = "CREATED",
        /// A nonce is bound; signed and stored, not yet known to a chain node.
        Allocated = "ALLOCATED",
        /// A chain node has it.
        Submitted = "SUBMITTED",
        /// In a canonical block.
        Tracking = "TRACKING",
        /// On chain, as final as was asked.
        Confirmed = "CONFIRMED",
        /// Not on chain, and final as asked.
        Failed = "FAILED",
    }
}

names! {
    /// What there is to say about a state.
    SubState {
        /// Nothing special.
        Pending = "PENDING",
        /// Sent long ago and not mined.
        Stale = "STALE",
        /// Chain nodes want a higher fee.
        Underpriced = "UNDERPRICED",
        /// The account cannot pay for it.
        InsufficientFunds = "INSUFFICIENT_FUNDS",
        /// A reorganisation took it out of its block.
        Reorged = "REORGED",
        /// Mined, and its execution was reverted.
        Reverted = "REVERTED",
        /// Withdrawn by its caller.
        Cancelled = "CANCELLED",
        /// Refused: by the estimate before a nonce was bound, or by every chain node after.
        Rejected = "REJECTED",
        /// Another transaction took its nonce.
        ReplacedExternally = "REPLACED_EXTERNALLY",
        /// Its lane is paused.
        Paused = "PAUSED",
    }
}

names! {
    /// How a mined transaction's execution ended.
    Outcome {
        /// It did what it was to do.
        Success = "success",
        /// It was undone; the fee was paid all the same.
        Reverted = "reverted",
    }
}

names! {
    /// The kinds of entries in a transaction's history.
    EventKind {
        /// Taken in.
        Accepted = "ACCEPTED",
        /// A nonce was bound; signed and stored.
        Bound = "BOUND",
        /// A chain node took it for the first time.
        Sent = "SENT",
        /// The stored bytes were sent again.
        Resent = "RESENT",
        /// Chain nodes refuse it for now.
        HeldUp = "HELD_UP",
        /// Nothing has been heard of it for too long.
        Stale = "STALE",
        /// It is in a canonical block.
        Mined = "MINED",
        /// The blocks on top of its own were replaced.
        NewFork = "NEW_FORK",
        /// Its block is no longer canonical.
        Reorged = "REORGED",
        /// As final as was asked.
        Confirmed = "CONFIRMED",
        /// Another transaction is final at its nonce.
        Replaced = "REPLACED",
        /// Refused before a nonce was bound.
        Rejected = "REJECTED",
        /// Withdrawn before a nonce was bound.
        Cancelled = "CANCELLED",
    }
}

/// Something that happens to a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// A nonce was bound, and the signed bytes were stored.
    Bound,
    /// Refused before a nonce was bound.
    Refused,
    /// Withdrawn before a nonce was bound.
    Withdrawn,
    /// A chain node has it.
    Sent,
    /// Chain nodes refuse it for now, for this reason.
    HeldUp(Obstacle),
    /// Nothing has been heard of it for too long.
    WentStale,
    /// It is in a canonical block.
    Mined(Outcome),
    /// The blocks on top of its own were replaced; whether it is still as final as was asked.
    Forked {
        /// Enough blocks are on top of it on the new fork too.
        still_final: bool,
    },
    /// Its block is no longer canonical.
    Unmined,
    /// The evidence that was asked for is there.
    Final,
    /// Another transaction is final at its nonce.
    Superseded(Successor),
}

/// Why chain nodes refuse a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Obstacle {
    /// They want a higher fee.
    Underpriced,
    /// The account cannot pay for it.
    InsufficientFunds,
    /// They will not have it as it is.
    Rejected,
}

/// Whose transaction took the nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Successor {
    /// Our own cancellation.
    Cancel,
    /// Somebody else's transaction.
    Outsider,
}

/// Where a transaction stands, as far as the rules go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Standing {
    /// The state.
    pub state: TxState,
    /// What there is to say about it.
    pub sub_state: Option<SubState>,
    /// How its execution ended, once it is in a block.
    pub outcome: Option<Outcome>,
    /// Whether a nonce is bound. Never taken back.
    pub bound: bool,
}

/// A step that cannot follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{step:?} cannot happen to a transaction that is {}", from.state)]
pub struct IllegalStep {
    /// Where it stood.
    pub from: Standing,
    /// What was to happen.
    pub step: Step,
}

impl Standing {
    /// Just accepted.
    pub const CREATED: Self = Self {
        state: TxState::Created,
        sub_state: Some(SubState::Pending),
        outcome: None,
        bound: false,
    };

    /// Whether nothing but a reorganisation can change it any more.
    pub fn is_done(&self) -> bool {
        matches!(self.state, TxState::Confirmed | TxState::Failed)
    }

    /// The rule: where it stands after a step.
    pub fn after(self, step: Step) -> Result<Self, IllegalStep> {
        use TxState::{Allocated, Confirmed, Created, Failed, Submitted, Tracking};
        let illegal = Err(IllegalStep { from: self, step });
        let state = match (self.state, step) {
            (Created, Step::Bound) => Allocated,
            (Created, Step::Refused | Step::Withdrawn) => Failed,
            (Allocated | Submitted, Step::Sent) => Submitted,
            (Allocated | Submitted, Step::HeldUp(_) | Step::WentStale) => self.state,
            (Allocated | Submitted | Tracking | Confirmed, Step::Mined(_)) => Tracking,
            (Tracking, Step::Forked { .. }) => Tracking,
            (Confirmed, Step::Forked { still_final: true }) => Confirmed,
            (Confirmed, Step::Forked { still_final: false }) => Tracking,
            (Tracking | Confirmed, Step::Unmined) => Submitted,
            (Tracking, Step::Final) => Confirmed,
            (Allocated | Submitted, Step::Superseded(_)) => Failed,
            // The other transaction was taken back by a reorganisation, or ours won after all.
            (Failed, Step::Unmined) if self.bound => Submitted,
            (Failed, Step::Mined(_)) if self.bound => Tracking,
            _ => return illegal,
        };
        let outcome = match step {
            Step::Mined(outcome) => Some(outcome),
            Step::Unmined => None,
            _ => self.outcome,
        };
        let told = match outcome {
            Some(Outcome::Reverted) => Some(SubState::Reverted),
            _ if state == Confirmed => None,
            _ => Some(SubState::Pending),
        };
        let sub_state = match step {
            // Sending it once more does not make it any younger.
            Step::Sent if self.sub_state == Some(SubState::Stale) => self.sub_state,
            Step::Bound | Step::Sent => Some(SubState::Pending),
            Step::Refused => Some(SubState::Rejected),
            Step::Withdrawn | Step::Superseded(Successor::Cancel) => Some(SubState::Cancelled),
            Step::Superseded(Successor::Outsider) => Some(SubState::ReplacedExternally),
            Step::HeldUp(Obstacle::Underpriced) => Some(SubState::Underpriced),
            Step::HeldUp(Obstacle::InsufficientFunds) => Some(SubState::InsufficientFunds),
            Step::HeldUp(Obstacle::Rejected) => Some(SubState::Rejected),
            Step::WentStale => Some(SubState::Stale),
            Step::Unmined => Some(SubState::Reorged),
            Step::Mined(_) | Step::Forked { .. } | Step::Final => told,
        };
        Ok(Self { state, sub_state, outcome, bound: self.bound || step == Step::Bound })
    }

    /// What the history calls a step from here.
    pub fn kind_of(self, step: Step) -> EventKind {
        match step {
            Step::Bound => EventKind::Bound,
            Step::Refused => EventKind::Rejected,
            Step::Withdrawn => EventKind::Cancelled,
            Step::Sent if self.state == TxState::Submitted => EventKind::Resent,
            Step::Sent => EventKind::Sent,
            Step::HeldUp(_) => EventKind::HeldUp,
            Step::WentStale => EventKind::Stale,
            Step::Mined(_) => EventKind::Mined,
            Step::Forked { .. } => EventKind::NewFork,
            Step::Unmined => EventKind::Reorged,
            Step::Final => EventKind::Confirmed,
            Step::Superseded(_) => EventKind::Replaced,
        }
    }
}

/// The steps, with the words the reference page uses for them.
const STEPS: &[(Step, &str)] = &[
    (Step::Bound, "a nonce is bound, signed, stored"),
    (Step::Refused, "refused before a nonce is bound"),
    (Step::Withdrawn, "withdrawn before a nonce is bound"),
    (Step::Sent, "a chain node has it"),
    (Step::HeldUp(Obstacle::Underpriced), "chain nodes want a higher fee"),
    (Step::HeldUp(Obstacle::InsufficientFunds), "the account cannot pay"),
    (Step::HeldUp(Obstacle::Rejected), "every chain node refuses it"),
    (Step::WentStale, "not mined for too long"),
    (Step::Mined(Outcome::Success), "in a canonical block, success"),
    (Step::Mined(Outcome::Reverted), "in a canonical block, reverted"),
    (Step::Forked { still_final: true }, "blocks above it replaced, still final"),
    (Step::Forked { still_final: false }, "blocks above it replaced, no longer final"),
    (Step::Unmined, "its block is no longer canonical"),
    (Step::Final, "the evidence asked for is there"),
    (Step::Superseded(Successor::Cancel), "our cancellation is final at its nonce"),
    (Step::Superseded(Successor::Outsider), "somebody else's is final at its nonce"),
];

/// The reference page: the whole rule as a table, made from the rule itself.
pub fn reference_markdown() -> String {
    let columns: Vec<(String, Standing)> = TxState::ALL
        .iter()
        .flat_map(|state| {
            let bound = |bound| Standing { state: *state, sub_state: None, outcome: None, bound };
            match state {
                TxState::Created => vec![(state.to_string(), bound(false))],
                TxState::Failed => vec![
                    ("FAILED, no nonce".to_owned(), bound(false)),
                    ("FAILED, nonce bound".to_owned(), bound(true)),
                ],
                _ => vec![(state.to_string(), bound(true))],
            }
        })
        .collect();
    let mut page = String::from(
        "# The states of a transaction\n\nWhat happens (down), where it stands (across), where it stands then, \
         with its `subState`. An empty cell cannot happen.\n\n| what happens | event |",
    );
    for (name, _) in &columns {
        page.push_str(&format!(" {name} |"));
    }
    page.push_str(&format!("\n|---|---|{}\n", "---|".repeat(columns.len())));
    for (step, words) in STEPS {
        let kind = match step {
            Step::Sent => "`SENT`, again `RESENT`".to_owned(),
            step => format!("`{}`", Standing::CREATED.kind_of(*step)),
        };
        page.push_str(&format!("| {words} | {kind} |"));
        for (_, from) in &columns {
            let cell = from.after(*step).map_or_else(
                |_| String::new(),
                |to| match to.sub_state {
                    Some(sub_state) => format!("{} / {sub_state}", to.state),
                    None => to.state.to_string(),
                },
            );
            page.push_str(&format!(" {cell} |"));
        }
        page.push('\n');
    }
    page
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    #[test]
    fn the_straight_way() {
        let steps = [Step::Bound, Step::Sent, Step::Mined(Outcome::Success), Step::Final];
        let end = steps.iter().try_fold(Standing::CREATED, |at, step| at.after(*step)).unwrap();
        assert_eq!((end.state, end.sub_state), (TxState::Confirmed, None));
        assert_eq!(end.outcome, Some(Outcome::Success));
    }

    #[test]
    fn a_reverted_call_is_confirmed_all_the_same() {
        let steps = [Step::Bound, Step::Sent, Step::Mined(Outcome::Reverted), Step::Final];
        let end = steps.iter().try_fold(Standing::CREATED, |at, step| at.after(*step)).unwrap();
        assert_eq!((end.state, end.sub_state), (TxState::Confirmed, Some(SubState::Reverted)));
    }

    #[test]
    fn every_name_can_be_read_back() {
        for state in TxState::ALL {
            assert_eq!(state.name().parse(), Ok(*state));
        }
        for kind in EventKind::ALL {
            assert_eq!(kind.name().parse(), Ok(*kind));
        }
        assert_eq!("created".parse::<TxState>(), Err(UnknownName));
    }

    proptest! {
        /// Whatever happens in whatever order: a nonce is never unbound, nothing without a nonce
        /// is ever on its way, only evidence from the chain ends what has a nonce, and only a
        /// reorganisation reopens it.
        #[test]
        fn no_order_of_steps_breaks_the_rules(
            steps in proptest::collection::vec(select(STEPS), 1..60)
        ) {
            let mut at = Standing::CREATED;
            for (step, _) in steps {
                let Ok(next) = at.after(step) else { continue };
                prop_assert!(next.bound || !at.bound, "a nonce was taken back");
                if !next.bound {
                    prop_assert!(matches!(next.state, TxState::Created | TxState::Failed));
                }
                if at.state == TxState::Failed && !at.bound {
                    prop_assert!(false, "something led out of a failure without a nonce");
                }
                if next.state == TxState::Confirmed {
                    prop_assert!(matches!(at.state, TxState::Tracking | TxState::Confirmed));
                }
                if next.state == TxState::Failed && at.bound {
                    prop_assert!(matches!(step, Step::Superseded(_)), "{:?} is no evidence", step);
                }
                if at.is_done() && !next.is_done() {
                    let reorg = matches!(step, Step::Unmined | Step::Mined(_) | Step::Forked { .. });
                    prop_assert!(reorg, "{:?} reopened it", step);
                }
                let mined = matches!(next.state, TxState::Tracking | TxState::Confirmed);
                prop_assert_eq!(mined, next.outcome.is_some());
                at = next;
            }
        }
    }
}
