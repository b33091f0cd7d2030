//! What an instance dares while Redis fails, as a pure rule.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How far an instance relies on Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Redis is asked.
    Normal,
    /// Redis fails: reads are answered with what is at most [`crate::Settings::l2_ttl`] old. Writes
    /// are tried.
    L2Only,
    /// Redis has failed for a while: reads are answered with whatever there is. Nothing is written
    /// and nothing reserved.
    LocalOnly,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Normal => "normal",
            Self::L2Only => "l2-only",
            Self::LocalOnly => "local-only",
        })
    }
}

/// A failure weighs this much, a success takes one off: three failures in a row are too many, and
/// so is every second call that fails.
const FAILURE_WEIGHT: u32 = 2;
const TOO_MANY: u32 = 6;

/// After so many probes in a row without an answer nothing is expected of Redis any more.
const PROBES_UNTIL_LOCAL: u32 = 5;

/// So many answers in a row end the doubt.
const ANSWERS_UNTIL_NORMAL: u32 = 3;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Observed {
    /// A call was answered.
    Answer,
    /// A call was not answered, or not in time.
    Failure,
    /// A probe was answered.
    ProbeAnswer,
    /// A probe was not answered, or not in time.
    ProbeFailure,
}

/// The mode and what speaks for the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) mode: Mode,
    weight: u32,
    silent_probes: u32,
    answers: u32,
}

impl Default for Standing {
    fn default() -> Self {
        Self { mode: Mode::Normal, weight: 0, silent_probes: 0, answers: 0 }
    }
}

impl Standing {
    /// Before the first answer of a Redis that could not be reached.
    pub(crate) fn without_redis() -> Self {
        Self { mode: Mode::LocalOnly, ..Self::default() }
    }

    /// Nothing of note: the next answer changes nothing.
    pub(crate) fn is_calm(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn after(self, observed: Observed) -> Self {
        use Observed::{Answer, Failure, ProbeAnswer, ProbeFailure};
        match (self.mode, observed) {
            (Mode::Normal, Answer | ProbeAnswer) => {
                Self { weight: self.weight.saturating_sub(1), ..self }
            }
            (Mode::Normal, Failure | ProbeFailure) => {
                let weight = self.weight + FAILURE_WEIGHT;
                if weight < TOO_MANY {
                    return Self { weight, ..self };
                }
                Self { mode: Mode::L2Only, ..Self::default() }
            }
            (Mode::L2Only, Answer | ProbeAnswer) => {
                let answers = self.answers + 1;
                if answers < ANSWERS_UNTIL_NORMAL {
                    return Self { answers, silent_probes: 0, ..self };
                }
                Self::default()
            }
            // Calls may fail a hundred at a time; only probes, which come one by one, tell for how
            // long.
            (Mode::L2Only, Failure) => Self { answers: 0, ..self },
            (Mode::L2Only, ProbeFailure) => {
                let silent_probes = self.silent_probes + 1;
                if silent_probes < PROBES_UNTIL_LOCAL {
                    return Self { silent_probes, answers: 0, ..self };
                }
                Self { mode: Mode::LocalOnly, ..Self::default() }
            }
            // Half open: one answer lets others try, and they decide.
            (Mode::LocalOnly, ProbeAnswer) => {
                Self { mode: Mode::L2Only, answers: 1, ..Self::default() }
            }
            (Mode::LocalOnly, Answer | Failure | ProbeFailure) => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Observed::{Answer, Failure, ProbeAnswer, ProbeFailure};

    fn after(observed: impl IntoIterator<Item = Observed>) -> Mode {
        observed.into_iter().fold(Standing::default(), Standing::after).mode
    }

    #[test]
    fn three_failures_in_a_row_are_too_many() {
        assert_eq!(after([Failure; 2]), Mode::Normal);
        assert_eq!(after([Failure; 3]), Mode::L2Only);
        assert_eq!(after([Failure, Failure, Answer, Failure]), Mode::Normal);
    }

    #[test]
    fn every_second_call_that_fails_is_too_much_and_every_third_is_not() {
        assert_eq!(after([Failure, Answer].repeat(6)), Mode::L2Only);
        assert_eq!(after([Failure, Answer, Answer].repeat(100)), Mode::Normal);
    }

    #[test]
    fn only_silent_probes_lead_to_local_only() {
        assert_eq!(after([Failure; 1000]), Mode::L2Only);
        let silent = [vec![Failure; 3], vec![ProbeFailure; 5]].concat();
        assert_eq!(after(silent.clone()), Mode::LocalOnly);
        assert_eq!(after([silent, vec![Answer; 9]].concat()), Mode::LocalOnly, "a late answer");
    }

    #[test]
    fn the_way_back_is_half_open() {
        let local = [vec![Failure; 3], vec![ProbeFailure; 5]].concat();
        let then = |more: &[Observed]| after([local.clone(), more.to_vec()].concat());
        assert_eq!(then(&[ProbeAnswer]), Mode::L2Only);
        assert_eq!(then(&[ProbeAnswer, ProbeAnswer, ProbeAnswer]), Mode::Normal);
        assert_eq!(then(&[ProbeAnswer, ProbeAnswer, Failure, ProbeAnswer]), Mode::L2Only);
        assert_eq!(then(&[[ProbeAnswer].as_slice(), &[ProbeFailure; 5]].concat()), Mode::LocalOnly);
    }
}
