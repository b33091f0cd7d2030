//! The rule.

use super::{EventKind, Outcome, SubState, Successor, TxState};

/// Something that happens to a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Its gas could not be estimated, though the chain can be reached.
    NotEstimated,
    /// Its gas is known after all.
    Estimated,
    /// A nonce was bound, and the signed bytes were stored.
    Bound,
    /// Refused before a nonce was bound.
    Refused,
    /// Withdrawn before a nonce was bound.
    Withdrawn,
    /// The database was restored: whether it was sent before is not known.
    Restored,
    /// A person says that it was never sent.
    Cleared,
    /// The chain shows that it was sent before the database was restored: that transaction is its
    /// attempt now.
    Recovered,
    /// A person says that it was sent before the database was restored, and the chain does not show
    /// by which transaction.
    Closed,
    /// A chain node has it.
    Sent,
    /// Chain nodes refuse it for now, for this reason.
    HeldUp(Obstacle),
    /// Nothing has been heard of it for too long.
    WentStale,
    /// A new attempt that offers more is stored.
    Bumped,
    /// Its caller withdraws it: an empty transaction at its nonce is stored.
    CancelRequested,
    /// It is given up: an empty transaction at its nonce is stored.
    GivenUp,
    /// Another transaction at its nonce is in a canonical block.
    Overtaken(Successor),
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
            (Created, Step::NotEstimated | Step::Estimated) => Created,
            (Created, Step::Bound | Step::Recovered) => Allocated,
            (Created, Step::Restored | Step::Cleared) => Created,
            (Created, Step::Refused | Step::Withdrawn | Step::Closed) => Failed,
            (Allocated | Submitted, Step::Sent) => Submitted,
            (
                Allocated | Submitted,
                Step::HeldUp(_)
                | Step::WentStale
                | Step::Bumped
                | Step::CancelRequested
                | Step::GivenUp
                | Step::Overtaken(_),
            ) => self.state,
            (Allocated | Submitted | Tracking | Confirmed, Step::Mined(_)) => Tracking,
            (Tracking, Step::Forked { .. }) => Tracking,
            (Confirmed, Step::Forked { still_final: true }) => Confirmed,
            (Confirmed, Step::Forked { still_final: false }) => Tracking,
            (Tracking | Confirmed, Step::Unmined) => Submitted,
            // The transaction that had overtaken it is gone from the chain.
            (Allocated | Submitted, Step::Unmined) => self.state,
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
            Step::NotEstimated => Some(SubState::Estimating),
            Step::Estimated | Step::Bound | Step::Recovered | Step::Sent => Some(SubState::Pending),
            Step::Restored | Step::Closed => Some(SubState::Restored),
            Step::Cleared => Some(SubState::Cleared),
            Step::Bumped => Some(SubState::Pending),
            Step::CancelRequested => self.sub_state,
            Step::Refused | Step::GivenUp => Some(SubState::Rejected),
            Step::Withdrawn => Some(SubState::Cancelled),
            Step::Overtaken(by) | Step::Superseded(by) => Some(match by {
                Successor::Cancel => SubState::Cancelled,
                Successor::GiveUp => SubState::Rejected,
                Successor::Outsider => SubState::ReplacedExternally,
            }),
            Step::HeldUp(Obstacle::Underpriced) => Some(SubState::Underpriced),
            Step::HeldUp(Obstacle::InsufficientFunds) => Some(SubState::InsufficientFunds),
            Step::HeldUp(Obstacle::Rejected) => Some(SubState::Rejected),
            Step::WentStale => Some(SubState::Stale),
            Step::Unmined => Some(SubState::Reorged),
            Step::Mined(_) | Step::Forked { .. } | Step::Final => told,
        };
        let bound = self.bound || matches!(step, Step::Bound | Step::Recovered);
        Ok(Self { state, sub_state, outcome, bound })
    }

    /// What the history calls a step from here.
    pub fn kind_of(self, step: Step) -> EventKind {
        match step {
            Step::NotEstimated => EventKind::NotEstimated,
            Step::Estimated => EventKind::Estimated,
            Step::Bound => EventKind::Bound,
            Step::Refused => EventKind::Rejected,
            Step::Withdrawn => EventKind::Cancelled,
            Step::Restored => EventKind::Restored,
            Step::Cleared => EventKind::Cleared,
            Step::Recovered => EventKind::Recovered,
            Step::Closed => EventKind::Closed,
            Step::Sent if self.state == TxState::Submitted => EventKind::Resent,
            Step::Sent => EventKind::Sent,
            Step::HeldUp(_) => EventKind::HeldUp,
            Step::WentStale => EventKind::Stale,
            Step::Bumped => EventKind::Bumped,
            Step::CancelRequested => EventKind::CancelRequested,
            Step::GivenUp => EventKind::GivenUp,
            Step::Overtaken(_) => EventKind::Overtaken,
            Step::Mined(_) => EventKind::Mined,
            Step::Forked { .. } => EventKind::NewFork,
            Step::Unmined => EventKind::Reorged,
            Step::Final => EventKind::Confirmed,
            Step::Superseded(_) => EventKind::Replaced,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::super::UnknownName;
    use super::super::reference::STEPS;
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
    fn hole_37_what_ended_in_a_way_that_nobody_tells_is_confirmed_all_the_same() {
        let steps = [Step::Bound, Step::Sent, Step::Mined(Outcome::Unknown), Step::Final];
        let end = steps.iter().try_fold(Standing::CREATED, |at, step| at.after(*step)).unwrap();
        assert_eq!((end.state, end.sub_state), (TxState::Confirmed, None));
        assert_eq!(end.outcome, Some(Outcome::Unknown));
    }

    #[test]
    fn what_a_restore_left_waits_until_the_chain_or_a_person_says_what_it_was() {
        let waits = Standing::CREATED.after(Step::Restored).unwrap();
        assert_eq!((waits.state, waits.sub_state), (TxState::Created, Some(SubState::Restored)));
        let cleared = waits.after(Step::Cleared).unwrap();
        assert_eq!((cleared.state, cleared.sub_state), (TxState::Created, Some(SubState::Cleared)));
        assert_eq!(cleared.after(Step::Bound).unwrap().state, TxState::Allocated);
        let recovered = waits.after(Step::Recovered).unwrap();
        assert_eq!((recovered.state, recovered.bound), (TxState::Allocated, true));
        let closed = waits.after(Step::Closed).unwrap();
        assert_eq!((closed.state, closed.sub_state), (TxState::Failed, Some(SubState::Restored)));
        // What has a nonce goes on with its stored bytes, whatever was restored.
        for step in [Step::Restored, Step::Cleared, Step::Recovered, Step::Closed] {
            assert!(recovered.after(step).is_err(), "{step:?}");
        }
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
