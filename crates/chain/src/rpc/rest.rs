//! How long an endpoint is left alone, because it said so.
//!
//! Whoever is asked too often and says when to come back is asked nothing until then. A question
//! that comes meanwhile has its error at once: nobody waits for the moment. What an endpoint says to
//! transactions that are sent to it binds sending alone, and is kept elsewhere (`taking`): gateways
//! count those by themselves.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::{Answer, Call, CallError};
use crate::calls::Method;
use crate::classify;

/// The longest that an endpoint's own word about when to come back is honoured. One question an hour
/// is no burden, and a word that was wrong does not silence it for good.
pub(crate) const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// Until when an endpoint is left alone.
#[derive(Debug, Default)]
pub(crate) struct Rest(Mutex<Option<(Instant, Until)>>);

/// The moment, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Until(Timestamp);

impl std::fmt::Display for Until {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Whole seconds, and the same words as long as it lasts.
        write!(f, "{}", Timestamp::from_second(self.0.as_second()).unwrap_or(self.0))
    }
}

impl Rest {
    /// How long it is left alone from now on; `None` if it may be asked.
    pub(crate) fn left(&self) -> Option<Duration> {
        let (until, _) = (*self.lock())?;
        until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    /// The error of a question that may not be asked now.
    pub(crate) fn refuses(&self) -> Option<CallError> {
        self.left()?;
        (*self.lock()).map(|(_, until)| CallError::Resting(until))
    }

    /// Takes note of what came back for these questions.
    pub(super) fn note(&self, calls: &[Call], answers: &Result<Option<Vec<Answer>>, CallError>) {
        let is_apart =
            |call: &Call| matches!(call.method, Method::SendRaw | Method::SignTransaction);
        if calls.iter().all(is_apart) {
            return;
        }
        let told = match answers {
            Ok(Some(answers)) => {
                answers.iter().filter_map(|answer| told(answer.as_ref().err()?)).max()
            }
            Ok(None) => None,
            Err(error) => told(error),
        };
        if let Some(told) = told {
            self.begin(told);
        }
    }

    fn begin(&self, told: Duration) {
        let told = told.min(LONGEST_RETRY_AFTER);
        let until = Instant::now() + told;
        let mut rest = self.lock();
        // Of several questions under way at one time: the latest moment counts.
        if rest.is_none_or(|(known, _)| known < until) {
            *rest = Some((until, Until(Timestamp::now() + told)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Instant, Until)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When to come back, if that is what the error says.
fn told(error: &CallError) -> Option<Duration> {
    classify::rate_limit(error).flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(method: Method) -> Call {
        Call::new(method, json!([]))
    }

    fn limited(seconds: Option<u64>) -> CallError {
        CallError::Limited(seconds.map(Duration::from_secs))
    }

    fn said(data: serde_json::Value) -> CallError {
        CallError::Said { code: -32005, message: "slow down".to_owned(), data: Some(data.into()) }
    }

    #[test]
    fn hole_25_whoever_says_when_to_come_back_is_left_alone_until_then() {
        let (read, send) = (call(Method::BlockNumber), call(Method::SendRaw));
        let fine = || Ok(serde_json::value::RawValue::NULL.to_owned().into());
        for (calls, answers, expected) in [
            (vec![read.clone()], Err(limited(Some(30))), Some(30)),
            (vec![read.clone()], Err(limited(None)), None),
            (vec![read.clone()], Err(CallError::Http(503)), None),
            (vec![read.clone()], Err(limited(Some(999_999))), Some(3600)),
            (vec![read.clone()], Err(said(json!({ "retry_after": 7 }))), Some(7)),
            (vec![read.clone()], Err(said(json!({}))), None),
            (
                vec![read.clone(); 3],
                Ok(Some(vec![
                    fine(),
                    Err(said(json!({ "retry_after": 7 }))),
                    Err(limited(Some(9))),
                ])),
                Some(9),
            ),
            (vec![read.clone()], Ok(Some(vec![fine()])), None),
            // Sending is limited by itself.
            (vec![send.clone()], Err(limited(Some(30))), None),
            (vec![call(Method::SignTransaction)], Err(limited(Some(30))), None),
        ] {
            let rest = Rest::default();
            rest.note(&calls, &answers);
            let left = rest.left().map(|left| left.as_secs_f64().ceil() as u64);
            assert_eq!(left, expected, "{calls:?} {answers:?}");
            assert_eq!(rest.refuses().is_some(), expected.is_some());
        }
    }

    #[test]
    fn an_answer_that_was_under_way_does_not_cut_a_rest_short() {
        let rest = Rest::default();
        let read = [call(Method::BlockNumber)];
        rest.note(&read, &Err(limited(Some(50))));
        rest.note(&read, &Err(limited(Some(1))));
        rest.note(&read, &Ok(Some(vec![Ok(serde_json::value::RawValue::NULL.to_owned().into())])));
        assert!(rest.left().is_some_and(|left| left > Duration::from_secs(40)));
        rest.begin(Duration::ZERO);
        let words = rest.refuses().unwrap().to_string();
        assert!(words.starts_with("is asked too often, and left alone until 2"), "{words}");
    }
}
