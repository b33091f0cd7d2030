//! JSON-RPC as Stile speaks it: questions in, answers in the same order out.
//!
//! | file | what it is for |
//! |---|---|
//! | [`wire`] | what is written and read |
//! | [`raw`] | one result, and what of it cannot be read |
//! | [`parts`] | several questions, as many at once as the endpoint takes |
//! | [`batch_size`] | how many that are |
//! | [`rest`] | leaving an endpoint alone that said so |
//! | [`http`] | over HTTP |
//! | [`ws`] | over a WebSocket, which also announces new heads |

mod batch_size;
mod http;
mod parts;
mod raw;
pub(crate) mod rest;
mod wire;
mod ws;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde_json::Value;

use self::batch_size::BatchSize;
pub(crate) use self::batch_size::Batches;
use self::http::Http;
pub(crate) use self::raw::{Bad, Raw, Unread};
use self::rest::{Rest, Until};
use self::ws::Ws;
use crate::calls::{self, CallResult, Method};
use crate::hints::Announcer;
use crate::places::Places;
use crate::target::{EndpointError, Scheme, Target};
use crate::unreadable::{Ledger, WHOLE};

/// One question.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) params: Value,
}

impl Call {
    pub(crate) fn new(method: Method, params: Value) -> Self {
        Self { method, params }
    }
}

/// What came back for one question.
pub(crate) type Answer = Result<Raw, CallError>;

/// Why there is no answer. Fit to be shown: it never carries the endpoint's URL.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum CallError {
    #[error("no answer in {0}")]
    Timeout(Waited),
    /// Not the endpoint's fault: too many others are under way.
    #[error("is asked as much as max_concurrency allows, and no turn came in {0}")]
    Crowded(Waited),
    #[error("cannot be reached")]
    Unreachable,
    #[error("answered with HTTP status {0}")]
    Http(u16),
    /// HTTP status 429, with when to come back if it says so.
    #[error("answered with HTTP status 429{}", come_back(*.0))]
    Limited(Option<Duration>),
    /// It was not asked: it said before when to come back.
    #[error("is asked too often, and left alone until {0}, as it said (Retry-After)")]
    Resting(Until),
    /// It is no answer at all, or not to this question.
    #[error("answered {0}")]
    Garbled(&'static str),
    /// It is an answer to this question, and says nothing that can be understood.
    #[error("answered {0}")]
    Unreadable(Box<Unread>),
    #[error("error {code}: {message}")]
    Said {
        code: i64,
        message: String,
        /// Shared: one error may be the answer to each call of a batch.
        data: Option<Arc<Value>>,
    },
}

/// How long an answer was waited for, and to which question: the first of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waited {
    limit: Duration,
    method: Option<Method>,
}

impl From<Duration> for Waited {
    fn from(limit: Duration) -> Self {
        Self { limit, method: None }
    }
}

impl std::fmt::Display for Waited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.limit)?;
        match self.method {
            Some(method) => write!(f, " to {}", method.name()),
            None => Ok(()),
        }
    }
}

fn come_back(after: Option<Duration>) -> String {
    after.map_or_else(String::new, |after| format!("; to be asked again in {after:?}"))
}

impl CallError {
    /// Whether it is about this one answer, and says nothing of others beside it.
    pub(crate) fn is_about_one(&self) -> bool {
        matches!(self, Self::Unreadable(_))
    }

    fn result(&self) -> CallResult {
        match self {
            Self::Timeout(_) | Self::Crowded(_) => CallResult::Timeout,
            _ => CallResult::Error,
        }
    }
}

/// The longest error text that is kept.
pub(crate) const TEXT_LIMIT: usize = 300;

/// No answer to anything Stile asks is this long: the longest are some whole blocks at once.
const LONGEST_ANSWER: usize = 64 * 1024 * 1024;

/// One endpoint, as something to ask.
pub(crate) struct Rpc {
    target: Arc<Target>,
    transport: Transport,
    timeout: Duration,
    /// How many exchanges may be under way at one time.
    pub(crate) places: Places,
    /// Until when it is asked nothing, by its own word.
    pub(crate) rest: Rest,
    next_id: AtomicU64,
    /// What it answered that cannot be read.
    pub(crate) unreadable: Arc<Ledger>,
    /// How many calls it is asked at once.
    batch_size: BatchSize,
}

enum Transport {
    Http(Http),
    Ws(Ws),
}

impl Rpc {
    /// Connects only when first asked. `heads` is told of new blocks by a WebSocket.
    pub(crate) fn new(
        target: Target,
        timeout: Duration,
        heads: Option<Announcer>,
    ) -> Result<Self, EndpointError> {
        let target = Arc::new(target);
        let unreadable = Arc::new(Ledger::new(Arc::clone(&target)));
        let transport = match target.scheme {
            Scheme::Http => Transport::Http(Http::new(Arc::clone(&target))?),
            Scheme::Ws => Transport::Ws(Ws::new(Arc::clone(&target), heads)?),
        };
        Ok(Self {
            target,
            transport,
            timeout,
            places: Places::default(),
            rest: Rest::default(),
            next_id: AtomicU64::new(1),
            unreadable,
            batch_size: BatchSize::default(),
        })
    }

    /// Host and port.
    pub(crate) fn shown(&self) -> &str {
        &self.target.shown
    }

    /// What is known of its batches.
    pub(crate) fn batches(&self) -> Batches {
        self.batch_size.known()
    }

    /// Whether it is spoken to over a WebSocket.
    pub(crate) fn is_web_socket(&self) -> bool {
        matches!(self.transport, Transport::Ws(_))
    }

    /// Whether it announces new heads, as far as that is known.
    pub(crate) fn announces(&self) -> Option<bool> {
        match &self.transport {
            Transport::Http(_) => Some(false),
            Transport::Ws(ws) => ws.announces(),
        }
    }

    /// A text of the endpoint's own, fit to be shown.
    pub(crate) fn clean(&self, text: &str, limit: usize) -> String {
        self.target.clean(text, limit)
    }

    /// Asks one thing and reads the answer as a `T`; `None` for `null`.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        params: Value,
    ) -> Result<Option<T>, CallError> {
        read(self.one(Call::new(method, params)).await)
    }

    async fn one(&self, call: Call) -> Answer {
        match self.exchange(std::slice::from_ref(&call)).await {
            Ok(Some(mut answers)) if answers.len() == 1 => answers.remove(0),
            Ok(_) => Err(CallError::Garbled("something else than was asked for")),
            Err(error) => Err(error),
        }
    }

    /// One exchange with its time limit, counted. Waiting for a place is part of it, so that nobody
    /// waits for longer than the limit. `None`: the endpoint refused the whole batch.
    async fn exchange(&self, calls: &[Call]) -> Result<Option<Vec<Answer>>, CallError> {
        if let Some(resting) = self.rest.refuses() {
            return Err(resting);
        }
        let first = self.next_id.fetch_add(calls.len() as u64, Ordering::Relaxed);
        let body = wire::write(calls, first);
        let limit = self.limit(calls.len());
        let waited = Waited { limit, method: calls.first().map(|call| call.method) };
        let counting = Counting { calls, start: Instant::now(), is_counted: false };
        let deadline = tokio::time::Instant::now() + limit;
        let Ok(_place) = tokio::time::timeout_at(deadline, self.places.enter()).await else {
            let crowded = Err(CallError::Crowded(waited));
            counting.finish(&crowded);
            return crowded;
        };
        let had_its_time = counting.start.elapsed() < limit / 2;
        let exchange = async {
            match &self.transport {
                Transport::Http(http) => http.exchange(body).await,
                Transport::Ws(ws) => ws.exchange(body, first, calls.len()).await,
            }
        };
        let answers = match tokio::time::timeout_at(deadline, exchange).await {
            Ok(Ok(text)) => {
                let answers = wire::read(&text, first, calls.len(), &self.target);
                self.mark(calls, answers, &text)
            }
            Ok(Err(error)) => self.mark(calls, Err(error), &[]),
            Err(_) if had_its_time => Err(CallError::Timeout(waited)),
            // Most of the time went by before the endpoint was asked.
            Err(_) => Err(CallError::Crowded(waited)),
        };
        counting.finish(&answers);
        self.rest.note(calls, &answers);
        answers
    }

    /// Says of each answer where it came from, and writes down what is none. What comes instead of the
    /// answers to a batch is asked for again, and says nothing of any of its calls.
    fn mark(
        &self,
        calls: &[Call],
        answers: Result<Option<Vec<Answer>>, CallError>,
        text: &[u8],
    ) -> Result<Option<Vec<Answer>>, CallError> {
        let answers = match answers {
            Ok(Some(answers)) => answers,
            other => {
                if let (Err(CallError::Garbled(words)), [call]) = (&other, calls) {
                    self.note_garbled(call, words, text);
                }
                return other;
            }
        };
        let mark = |(answer, call): (Answer, &Call)| match answer {
            Ok(raw) => Ok(raw.of(call.method, &self.unreadable)),
            Err(error) => {
                if let (CallError::Garbled(words), [_]) = (&error, calls) {
                    self.unreadable.note(call.method, WHOLE, words, "");
                }
                Err(error)
            }
        };
        Ok(Some(answers.into_iter().zip(calls).map(mark).collect()))
    }

    /// Writes down what came instead of an answer.
    fn note_garbled(&self, call: &Call, words: &str, text: &[u8]) {
        let text = String::from_utf8_lossy(&text[..text.len().min(SAMPLED)]);
        self.unreadable.note(call.method, WHOLE, words, &text);
    }

    /// A batch of a hundred is given three times as long as one question.
    fn limit(&self, calls: usize) -> Duration {
        self.timeout + self.timeout * u32::try_from(calls / 50).unwrap_or(u32::MAX).min(10)
    }
}

/// How much is kept of what is no answer at all.
const SAMPLED: usize = 16 * 1024;

/// Calls under way. If nobody waits for their answer any more, they are counted as timed out.
struct Counting<'a> {
    calls: &'a [Call],
    start: Instant,
    is_counted: bool,
}

impl Counting<'_> {
    fn finish(mut self, answers: &Result<Option<Vec<Answer>>, CallError>) {
        self.is_counted = true;
        for (place, call) in self.calls.iter().enumerate() {
            let result = match answers {
                Ok(Some(answers)) => match answers.get(place) {
                    Some(Ok(_)) => CallResult::Ok,
                    Some(Err(error)) => error.result(),
                    None => CallResult::Error,
                },
                Ok(None) => CallResult::Error,
                Err(error) => error.result(),
            };
            calls::record(call.method, result, self.start.elapsed());
        }
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        if !self.is_counted {
            for call in self.calls {
                calls::record(call.method, CallResult::Timeout, self.start.elapsed());
            }
        }
    }
}

impl std::fmt::Debug for Rpc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.shown())
    }
}

/// Reads an answer as a `T`; `None` for `null`. What cannot be read is written down.
pub(crate) fn read<T: DeserializeOwned>(answer: Answer) -> Result<Option<T>, CallError> {
    answer?.parse()
}

/// Reads an answer that must not be `null`.
pub(crate) fn read_some<T: DeserializeOwned>(answer: Answer) -> Result<T, CallError> {
    let raw = answer?;
    raw.parse()?.ok_or_else(|| raw.refuse(NULL))
}

/// Reads an answer as a `T` and checks it; `None` for `null`. What cannot be is written down like
/// what cannot be read.
pub(crate) fn read_checked<T: DeserializeOwned, U>(
    answer: Answer,
    check: impl FnOnce(T) -> Result<U, Bad>,
) -> Result<Option<U>, CallError> {
    let raw = answer?;
    let told = raw.parse::<T>()?;
    told.map(check).transpose().map_err(|bad| raw.refuse(bad))
}

/// The same of an answer that must not be `null`.
pub(crate) fn read_some_checked<T: DeserializeOwned, U>(
    answer: Answer,
    check: impl FnOnce(T) -> Result<U, Bad>,
) -> Result<U, CallError> {
    let raw = answer?;
    let told: T = raw.parse()?.ok_or_else(|| raw.refuse(NULL))?;
    check(told).map_err(|bad| raw.refuse(bad))
}

const NULL: Bad = Bad { field: WHOLE, words: "null" };
