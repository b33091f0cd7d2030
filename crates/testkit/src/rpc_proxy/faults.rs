//! What a proxy has been told to do wrong.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy_primitives::B256;
use futures::future::BoxFuture;
use tokio::sync::watch;

/// An error that a chain node did not say.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) code: i64,
    pub(super) message: String,
}

/// The faults that end with a request.
#[derive(Debug, Default)]
pub(super) struct Rules {
    pub(super) delays: HashMap<String, Duration>,
    pub(super) failures: HashMap<String, Failure>,
    pub(super) lost: BTreeSet<String>,
    pub(super) status: Option<u16>,
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
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            rules: Mutex::default(),
            held: watch::Sender::new(BTreeSet::new()),
            hook: Mutex::default(),
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

    /// Returns once none of these methods is held.
    pub(super) async fn wait_until_released(&self, methods: &[&str]) {
        let mut held = self.held.subscribe();
        let free = held.wait_for(|held| !methods.iter().any(|method| held.contains(*method)));
        free.await.expect("the sender is in self");
    }

    /// How much longer a request with these methods takes.
    pub(super) fn delay(&self, methods: &[&str]) -> Option<Duration> {
        let rules = self.rules.lock().unwrap();
        methods.iter().filter_map(|method| rules.delays.get(*method)).max().copied()
    }

    pub(super) fn failure(&self, method: &str) -> Option<Failure> {
        self.rules.lock().unwrap().failures.get(method).cloned()
    }

    /// Whether the answer to a request with these methods gets lost.
    pub(super) fn loses(&self, methods: &[&str]) -> bool {
        let rules = self.rules.lock().unwrap();
        methods.iter().any(|method| rules.lost.contains(*method))
    }

    pub(super) fn status(&self) -> Option<u16> {
        self.rules.lock().unwrap().status
    }
}
