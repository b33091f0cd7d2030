//! Several questions to one endpoint, as many at once as it takes.
//!
//! Endpoints that take no batches, or none so large, say so in ways of their own: by an error, by an HTTP
//! status, with a web page, with one answer for all, or by leaving answers out. So whatever comes instead
//! of the answers to a batch, one of its questions is asked alone. If that is answered, it was the batch
//! that failed: smaller ones are asked from then on, down to single questions. If not, it is the
//! endpoint. Answers that are left out of a batch are asked for one by one.

use std::time::Instant;

use super::batch_size::Lasts;
use super::{Answer, Call, CallError, Rpc, wire};
use crate::classify;

/// What came back for a part of what was asked.
enum Part {
    /// For as many calls as there are answers, from the first.
    Answered(Vec<Answer>),
    /// Nothing: fewer are to be asked at once.
    TooMany,
    /// There is no answer, and there would be none to the rest.
    Gone(CallError),
}

/// HTTP: what was sent is too large.
const TOO_LARGE: u16 = 413;

impl Rpc {
    /// Asks several things, as many at once as the endpoint takes. As many answers as questions, in the
    /// same order, whatever the endpoint does.
    pub(crate) async fn batch(&self, calls: &[Call]) -> Vec<Answer> {
        let mut answers = Vec::with_capacity(calls.len());
        while answers.len() < calls.len() {
            let rest = &calls[answers.len()..];
            match self.part(&rest[..self.batch_size.now().min(rest.len())]).await {
                Part::Answered(some) => answers.extend(some),
                Part::TooMany => {}
                Part::Gone(error) => answers.resize_with(calls.len(), || Err(error.clone())),
            }
        }
        answers
    }

    /// Finds out how many calls the endpoint takes at once, up to so many.
    pub(crate) async fn try_batches(&self, call: &Call, most: usize) {
        loop {
            let calls = self.batch_size.now().min(most);
            let is_gone = match calls {
                0 | 1 => return,
                _ => matches!(self.part(&vec![call.clone(); calls]).await, Part::Gone(_)),
            };
            if is_gone || self.batch_size.now() >= calls {
                return;
            }
        }
    }

    /// Asks as many things as are asked at once.
    async fn part(&self, calls: &[Call]) -> Part {
        if let [call] = calls {
            return match self.one(call.clone()).await {
                Err(error) if is_gone(&error) => Part::Gone(error),
                answer => {
                    self.batch_size.answered(1);
                    Part::Answered(vec![answer])
                }
            };
        }
        let asked = Instant::now();
        match self.exchange(calls).await {
            Ok(Some(answers)) if answers.iter().all(wire::is_left_out) => {
                self.alone(calls, wire::MISSING).await
            }
            Ok(Some(answers)) => self.completed(calls, answers).await,
            Ok(None) => self.shrunk(calls, Lasts::Long, "it was refused"),
            Err(CallError::Http(TOO_LARGE)) => self.shrunk(calls, Lasts::Long, "it is too large"),
            Err(error @ CallError::Timeout(_)) => {
                if !self.batch_size.timed_out(calls.len(), asked) {
                    return Part::Gone(error);
                }
                let endpoint = self.shown();
                let calls = calls.len();
                tracing::debug!(endpoint, calls, "a batch is asked in smaller parts");
                Part::TooMany
            }
            Err(error) if is_gone(&error) => Part::Gone(error),
            Err(error) => self.alone(calls, error).await,
        }
    }

    /// A batch failed with this error: whether it was the batch or the endpoint shows the first of its
    /// calls, asked alone.
    async fn alone(&self, calls: &[Call], error: CallError) -> Part {
        let Some(first) = calls.first() else { return Part::Gone(error) };
        let answer = self.one(first.clone()).await;
        if !is_answered(&answer, &error) {
            return Part::Gone(error);
        }
        self.batch_size.answered(1);
        self.shrunk(calls, lasts(&error), &error.to_string());
        Part::Answered(vec![answer])
    }

    /// Asks one by one for what was left out of a batch.
    async fn completed(&self, calls: &[Call], mut answers: Vec<Answer>) -> Part {
        if !answers.iter().any(wire::is_left_out) {
            self.batch_size.answered(calls.len());
            return Part::Answered(answers);
        }
        let left_out =
            answers.iter_mut().zip(calls).filter(|(answer, _)| wire::is_left_out(answer));
        let mut is_answered = false;
        for (answer, call) in left_out {
            let alone = self.one(call.clone()).await;
            if alone.as_ref().is_err_and(is_gone) {
                break;
            }
            is_answered = true;
            *answer = alone;
        }
        if is_answered {
            self.shrunk(calls, Lasts::Long, "answers were left out");
        }
        Part::Answered(answers)
    }

    /// Fewer calls are asked at once from now on.
    fn shrunk(&self, calls: &[Call], lasts: Lasts, why: &str) -> Part {
        let (most, is_news) = self.batch_size.refused(calls.len(), lasts);
        let (endpoint, refused) = (self.shown(), calls.len());
        match is_news {
            true => tracing::info!(endpoint, refused, most, why, "takes smaller batches"),
            false => tracing::debug!(endpoint, refused, most, why, "takes smaller batches"),
        }
        Part::TooMany
    }
}

/// Whoever does not answer one question will not answer the next hundred either.
fn is_gone(error: &CallError) -> bool {
    matches!(
        error,
        CallError::Timeout(_)
            | CallError::Crowded(_)
            | CallError::Resting(_)
            | CallError::Unreachable
    )
}

/// Whether an endpoint has answered a single question, where this came of the batch that it was in.
fn is_answered(answer: &Answer, batch: &CallError) -> bool {
    match answer {
        Ok(_) => true,
        // An error is an answer, unless it is the one that everything gets.
        Err(error @ CallError::Said { .. }) => {
            error != batch && classify::rate_limit(error).is_none()
        }
        Err(_) => false,
    }
}

/// How long a batch is not tried again that failed so.
fn lasts(error: &CallError) -> Lasts {
    match error {
        // It may have been about the moment.
        CallError::Limited(_) | CallError::Said { .. } | CallError::Http(408 | 500 | 502..=504) => {
            Lasts::Short
        }
        _ => Lasts::Long,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn said(code: i64, message: &str) -> CallError {
        CallError::Said { code, message: message.to_owned(), data: None }
    }

    #[test]
    fn hole_37_what_shows_that_it_was_the_batch_that_failed() {
        let fine = || Ok(RawValue::NULL.to_owned().into());
        let (forbidden, internal) = (CallError::Http(403), said(-32603, "Internal error"));
        for (batch, alone, expected) in [
            (&forbidden, fine(), true),
            (&forbidden, Err(said(-32000, "header not found")), true),
            (&forbidden, Err(CallError::Http(403)), false),
            (&forbidden, Err(CallError::Http(503)), false),
            (&forbidden, Err(CallError::Unreachable), false),
            (&forbidden, Err(CallError::Garbled("nothing")), false),
            (&forbidden, Err(said(-32005, "rate limit reached")), false),
            (&internal, fine(), true),
            (&internal, Err(said(-32000, "nonce too low")), true),
            (&internal, Err(said(-32603, "Internal error")), false),
        ] {
            assert_eq!(is_answered(&alone, batch), expected, "{batch}, then {alone:?}");
        }
    }

    #[test]
    fn hole_37_what_may_be_about_the_moment_is_soon_tried_again() {
        for (error, expected) in [
            (CallError::Http(401), Lasts::Long),
            (CallError::Http(405), Lasts::Long),
            (CallError::Http(422), Lasts::Long),
            (CallError::Http(501), Lasts::Long),
            (wire::MISSING, Lasts::Long),
            (CallError::Http(500), Lasts::Short),
            (CallError::Http(502), Lasts::Short),
            (CallError::Limited(None), Lasts::Short),
            (said(-32603, "Internal error"), Lasts::Short),
        ] {
            assert_eq!(lasts(&error), expected, "{error}");
        }
    }
}
