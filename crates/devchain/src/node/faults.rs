//! The faults that were asked for.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;

/// The faults that were asked for. The default is an honest node.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// How late answers come, unless their method has a time of its own.
    delay: Duration,
    delays: HashMap<String, Duration>,
    /// How many blocks behind it says it is.
    pub(crate) behind: u64,
    lies: Vec<Lie>,
}

/// An answer that is made up.
#[derive(Debug, Clone)]
pub(crate) struct Lie {
    pub(crate) method: String,
    pub(crate) answer: LieAnswer,
    /// How often; `None` is for ever.
    pub(crate) times: Option<u64>,
}

/// What is said instead of the truth.
#[derive(Debug, Clone)]
pub(crate) enum LieAnswer {
    Result(Value),
    Error(Value),
}

impl Faults {
    /// Lets answers come late: those to these methods, or to all.
    pub(crate) fn set_delay(&mut self, methods: Option<Vec<String>>, delay: Duration) {
        match methods {
            None => {
                self.delays.clear();
                self.delay = delay;
            }
            Some(methods) => self.delays.extend(methods.into_iter().map(|name| (name, delay))),
        }
    }

    /// How late the answer to this method comes.
    pub(crate) fn delay(&self, method: &str) -> Duration {
        self.delays.get(method).copied().unwrap_or(self.delay)
    }

    /// Adds a lie. The newest one about a method is told.
    pub(crate) fn add_lie(&mut self, lie: Lie) {
        self.lies.push(lie);
    }

    /// The lie to tell about this method now, if any.
    pub(crate) fn lie(&mut self, method: &str) -> Option<LieAnswer> {
        let place = self.lies.iter().rposition(|lie| lie.method == method)?;
        let lie = &mut self.lies[place];
        let answer = lie.answer.clone();
        if let Some(times) = &mut lie.times {
            *times = times.saturating_sub(1);
            if *times == 0 {
                self.lies.remove(place);
            }
        }
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lie_is_told_as_often_as_was_asked_for() {
        let mut faults = Faults::default();
        let lie = |method: &str, times| Lie {
            method: method.to_owned(),
            answer: LieAnswer::Result(Value::from(times)),
            times,
        };
        faults.add_lie(lie("a", None));
        faults.add_lie(lie("a", Some(2)));
        let mut told = || match faults.lie("a") {
            Some(LieAnswer::Result(value)) => value,
            _ => panic!("no lie"),
        };
        assert_eq!(
            [told(), told(), told(), told()],
            [2.into(), 2.into(), Value::Null, Value::Null]
        );
        assert!(faults.lie("b").is_none());
    }
}
