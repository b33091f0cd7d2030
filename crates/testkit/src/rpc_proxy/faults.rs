//! What a proxy has been told to do wrong.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy_primitives::B256;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::log::Seen;

/// An error that a chain node did not say.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) code: i64,
    pub(super) message: String,
}

/// An HTTP status that is answered to the requests with a method, and when to come back.
#[derive(Debug, Clone)]
pub(super) struct Status {
    pub(super) status: u16,
    pub(super) retry_after: Option<String>,
}

/// What an endpoint does with a request instead of passing it on, or with its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reaction {
    /// Passes the call on. An error whose message contains the first text is told with this code and the
    /// second text instead.
    Reword(&'static str, i64, String),
    /// Answers the call with a JSON-RPC error, and does not pass it on.
    Error(i64, String),
    /// Answers the whole request with an HTTP status.
    Status(u16),
    /// Never answers the request.
    Silence,
}

/// What an endpoint is like: from a call's method and parameters to what it does with it.
pub(super) type Nature = Arc<dyn Fn(&str, &Value) -> Option<Reaction> + Send + Sync>;

/// What is said to signed bytes, in hexadecimal; `None` to pass them on.
type Judge = Arc<dyn Fn(&str) -> Option<(i64, String)> + Send + Sync>;

/// The faults that end with a request.
#[derive(Default)]
pub(super) struct Rules {
    /// Signed bytes are answered as if they had been taken, and go nowhere.
    pub(super) swallows_sends: bool,
    pub(super) judge: Option<Judge>,
    pub(super) delays: HashMap<String, Duration>,
    /// How much longer every request takes.
    pub(super) delay: Option<Duration>,
    /// The most calls that a request may have in a batch, and what is said to more; 0 for no batches.
    pub(super) longest_batch: Option<(usize, Failure)>,
    /// What becomes of the answers to a batch.
    pub(super) batches: Option<Batches>,
    pub(super) failures: HashMap<String, Failure>,
    pub(super) lost: BTreeSet<String>,
    pub(super) status: Option<u16>,
    pub(super) statuses: HashMap<String, Status>,
    pub(super) lies: Vec<Lie>,
    /// Methods and the fields that are missing in their results.
    pub(super) stripped: BTreeSet<(String, String)>,
}

/// The HTTP status of the answer to a batch, and what is written instead of the answers.
#[derive(Clone)]
pub(super) struct Batches {
    pub(super) status: u16,
    pub(super) write: Arc<dyn Fn(Vec<Value>) -> String + Send + Sync>,
}

/// From a call's parameters and its result to what is answered instead; `None` where the truth is
/// told.
type Answer = Arc<dyn Fn(&Value, &Value) -> Option<Value> + Send + Sync>;

/// A result that a chain node did not give.
#[derive(Clone)]
pub(super) struct Lie {
    pub(super) method: String,
    pub(super) answer: Answer,
}

impl fmt::Debug for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lie").field("method", &self.method).finish_non_exhaustive()
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules")
            .field("swallows_sends", &self.swallows_sends)
            .field("judge", &self.judge.is_some())
            .field("delays", &self.delays)
            .field("delay", &self.delay)
            .field("longest_batch", &self.longest_batch)
            .field("batches", &self.batches.as_ref().map(|batches| batches.status))
            .field("failures", &self.failures)
            .field("lost", &self.lost)
            .field("status", &self.status)
            .field("statuses", &self.statuses)
            .field("lies", &self.lies)
            .field("stripped", &self.stripped)
            .finish()
    }
}

impl Rules {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

type Hook = Arc<dyn Fn(B256) -> BoxFuture<'static, ()> + Send + Sync>;

/// Shared by all requests of a proxy.
pub(super) struct Faults {
    rules: Mutex<Rules>,
    held: watch::Sender<BTreeSet<String>>,
    hook: Mutex<Option<Hook>>,
    nature: Mutex<Option<Nature>>,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            rules: Mutex::default(),
            held: watch::Sender::new(BTreeSet::new()),
            hook: Mutex::default(),
            nature: Mutex::default(),
        }
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").field("rules", &self.rules).field("held", &self.held).finish()
    }
}

impl Faults {
    pub(super) fn set(&self, change: impl FnOnce(&mut Rules)) {
        change(&mut self.rules.lock().unwrap());
    }

    pub(super) fn hold(&self, method: &str) {
        self.held.send_modify(|held| {
            held.insert(method.to_owned());
        });
    }

    pub(super) fn release(&self) {
        self.held.send_modify(BTreeSet::clear);
    }

    pub(super) fn set_hook(&self, hook: Hook) {
        *self.hook.lock().unwrap() = Some(hook);
    }

    pub(super) fn hook(&self) -> Option<Hook> {
        self.hook.lock().unwrap().clone()
    }

    pub(super) fn set_nature(&self, nature: Nature) {
        *self.nature.lock().unwrap() = Some(nature);
    }

    /// What the endpoint does with these calls, by what it is like.
    pub(super) fn reactions(&self, seen: &[Seen]) -> Vec<Option<Reaction>> {
        let nature = self.nature.lock().unwrap().clone();
        let react = |seen: &Seen| nature.as_ref()?(&seen.method, &seen.params);
        seen.iter().map(react).collect()
    }

    /// Returns once none of these methods is held.
    pub(super) async fn wait_until_released(&self, methods: &[&str]) {
        let mut held = self.held.subscribe();
        let free = held.wait_for(|held| !methods.iter().any(|method| held.contains(*method)));
        free.await.expect("the sender is in self");
    }

    /// How much longer a request with these methods takes.
    pub(super) fn delay(&self, methods: &[&str]) -> Option<Duration> {
        let rules = self.rules.lock().unwrap();
        let of_methods = methods.iter().filter_map(|method| rules.delays.get(*method)).max();
        of_methods.copied().max(rules.delay)
    }

    /// What is said to a batch of so many calls, if it is too long.
    pub(super) fn too_long(&self, calls: usize) -> Option<Failure> {
        let rules = self.rules.lock().unwrap();
        let (longest, failure) = rules.longest_batch.as_ref()?;
        (calls > *longest).then(|| failure.clone())
    }

    /// What becomes of the answers to a batch.
    pub(super) fn batches(&self) -> Option<Batches> {
        self.rules.lock().unwrap().batches.clone()
    }

    /// What is answered to a call instead of passing it on: an error, or a result that is not true.
    pub(super) fn instead(&self, seen: &Seen) -> Option<(&'static str, Value)> {
        let rules = self.rules.lock().unwrap();
        let said = rules.judge.as_ref().zip(seen.raw()).and_then(|(judge, raw)| judge(raw));
        let said = said.map(|(code, message)| Failure { code, message });
        if let Some(failure) = said.as_ref().or_else(|| rules.failures.get(&seen.method)) {
            let error = json!({ "code": failure.code, "message": failure.message });
            return Some(("error", error));
        }
        let hash = seen.sent_hash().filter(|_| rules.swallows_sends)?;
        Some(("result", json!(hash)))
    }

    /// Whether the answer to a request with these methods gets lost.
    pub(super) fn loses(&self, methods: &[&str]) -> bool {
        let rules = self.rules.lock().unwrap();
        methods.iter().any(|method| rules.lost.contains(*method))
    }

    /// What is said instead of the truth about these methods; the last word told counts.
    pub(super) fn lies(&self, methods: &[&str]) -> Vec<Lie> {
        let rules = self.rules.lock().unwrap();
        let told = rules.lies.iter().rev().filter(|lie| methods.contains(&lie.method.as_str()));
        told.cloned().collect()
    }

    /// Whether a result of one of these methods lacks fields that the target gave.
    pub(super) fn strips(&self, methods: &[&str]) -> bool {
        let rules = self.rules.lock().unwrap();
        rules.stripped.iter().any(|(method, _)| methods.contains(&method.as_str()))
    }

    /// Takes out of a method's result what is told without: of an object, or of each in a list.
    pub(super) fn strip(&self, method: &str, result: &mut Value) {
        let rules = self.rules.lock().unwrap();
        let of_method = rules.stripped.iter().filter(|(of, _)| of == method);
        for (_, field) in of_method {
            let objects = match &mut *result {
                Value::Array(all) => all.as_mut_slice(),
                one => std::slice::from_mut(one),
            };
            for object in objects.iter_mut().filter_map(Value::as_object_mut) {
                object.remove(field);
            }
        }
    }

    /// The status that is all the answer to a request with these methods.
    pub(super) fn status(&self, methods: &[&str]) -> Option<Status> {
        let rules = self.rules.lock().unwrap();
        let for_all = rules.status.map(|status| Status { status, retry_after: None });
        for_all.or_else(|| methods.iter().find_map(|method| rules.statuses.get(*method)).cloned())
    }
}
