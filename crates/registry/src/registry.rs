//! One instance: its memory, its way to the truth and the tasks behind them.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use stile_tasks::{Fall, Tasks};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::backend::Backend;
use crate::backend::local::Local;
use crate::backend::redis::Redis;
use crate::cache::Cache;
use crate::cache::slot::Slot;
use crate::clock::Clock;
use crate::config::ConfigSlot;
use crate::error::{BackendError, RegistryError};
use crate::flight::{Key, Landing};
use crate::metrics::{self, Reads};
use crate::mode::{Mode, Observed, Standing};
use crate::monitor::Monitor;
use crate::session::Sessions;
use crate::settings::{InvalidSettings, Settings};
use crate::{ConfigName, background};

/// A node registry. Clones share everything; when the last one is dropped, what runs behind it ends.
#[derive(Debug, Clone)]
pub struct Registry {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    inner: Arc<Inner>,
    _stops_when_dropped: DropGuard,
}

/// Something to look at behind an answer.
#[derive(Debug)]
pub(crate) enum Work {
    Node(Arc<Slot>),
    Config(Arc<ConfigSlot>),
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) settings: Settings,
    pub(crate) cache: Cache,
    pub(crate) monitor: Monitor,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) reads: Reads,
    pub(crate) sessions: Sessions,
    pub(crate) configs: papaya::HashMap<ConfigName, Arc<ConfigSlot>, foldhash::fast::RandomState>,
    flights: Mutex<HashMap<Key, Landing>>,
    work: mpsc::UnboundedSender<Work>,
    pub(crate) tasks: Tasks,
    pub(crate) stop: CancellationToken,
}

/// Why a registry cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The settings contradict each other.
    #[error(transparent)]
    Settings(#[from] InvalidSettings),
    /// The address of Redis cannot be one.
    #[error(
        "{url:?} is not the address of a Redis ({reason}): give redis://HOST:PORT, several with commas for a cluster"
    )]
    Address {
        /// What was given, without a password.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl Registry {
    /// A registry within this process, for one machine. Has to be made within a tokio runtime.
    pub fn in_process(settings: Settings) -> Result<Self, ConnectError> {
        settings.check()?;
        let backend = Arc::new(Local::new(settings.clone()));
        Ok(Self::start(settings, backend, Standing::default()))
    }

    /// A registry on Redis or Valkey: `redis://host:port`, `rediss://` with TLS, or several with
    /// commas in between. Whether it is one server or a cluster is found out.
    ///
    /// A Redis that cannot be reached is no error: the registry begins in [`Mode::LocalOnly`] and
    /// goes on to try. [`Registry::wait_for`] waits for it.
    pub async fn connect(url: &str, settings: Settings) -> Result<Self, ConnectError> {
        settings.check()?;
        let redis = Redis::new(url, &settings)?;
        let reached = redis.reach().await;
        let standing = match &reached {
            Ok(()) => Standing::default(),
            Err(error) => {
                tracing::warn!(%error, "Redis cannot be reached; going on without it for now");
                Standing::without_redis()
            }
        };
        let redis = Arc::new(redis);
        let registry = Self::start(settings, Arc::clone(&redis) as _, standing);
        let inner = registry.inner();
        if let Err(error) = &reached {
            inner.monitor.failed(Observed::ProbeFailure, error);
        }
        inner.tasks.spawn("registry-redis", redis.run_behind(Arc::clone(inner)));
        Ok(registry)
    }

    fn start(settings: Settings, backend: Arc<dyn Backend>, standing: Standing) -> Self {
        let clock = Clock::start();
        let (work, waiting) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let inner = Arc::new(Inner {
            cache: Cache::new(clock, &settings),
            monitor: Monitor::new(clock, standing),
            backend,
            reads: Reads::default(),
            sessions: Sessions::new(settings.session_ttl),
            configs: papaya::HashMap::default(),
            flights: Mutex::default(),
            work,
            tasks: Tasks::new(Fall::new(stop.clone())),
            stop: stop.clone(),
            settings,
        });
        background::start(&inner, waiting);
        let shared = Shared { inner, _stops_when_dropped: stop.drop_guard() };
        Self { shared: Arc::new(shared) }
    }

    #[inline]
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.shared.inner
    }

    /// What it was made with.
    pub fn settings(&self) -> &Settings {
        &self.inner().settings
    }

    /// How far Redis is relied on at the moment.
    pub fn mode(&self) -> Mode {
        self.inner().monitor.mode()
    }

    /// Follows the mode.
    pub fn watch_mode(&self) -> watch::Receiver<Mode> {
        self.inner().monitor.watch()
    }

    /// Waits until the mode is this one.
    pub async fn wait_for(&self, mode: Mode) {
        // The sender lives as long as this registry does.
        let _ = self.watch_mode().wait_for(|now| *now == mode).await;
    }

    /// How many reads of nodes were answered by `l1`, `l2`, `local`, `redis` and `negative` so far.
    pub fn reads_by_level(&self) -> Vec<(&'static str, u64)> {
        self.inner().reads.by_level()
    }

    /// Whether one of the tasks behind this registry has panicked: then all of them have stopped.
    pub fn fall(&self) -> &Fall {
        self.inner().tasks.fall()
    }

    /// Ends everything that runs behind this registry and its clones, and waits for it.
    pub async fn shutdown(&self) {
        let inner = self.inner();
        inner.stop.cancel();
        inner.tasks.close();
        inner.tasks.wait().await;
        inner.reads.flush();
    }
}

impl Inner {
    /// Asks where the truth is, and takes note of whether there was an answer.
    pub(crate) async fn ask<T>(
        &self,
        operation: &'static str,
        question: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, RegistryError> {
        let answer = self.measured(operation, question).await;
        answer.map_err(|error| self.away(operation, error.to_string()))
    }

    pub(crate) async fn measured<T>(
        &self,
        operation: &'static str,
        question: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, BackendError> {
        let asked = Instant::now();
        let answer = question.await;
        match &answer {
            Ok(_) => {
                self.monitor.observed(Observed::Answer);
                metrics::redis_took(operation, asked.elapsed());
            }
            Err(error) => {
                self.monitor.failed(Observed::Failure, error);
                let timed_out = matches!(error, BackendError::TimedOut(_));
                metrics::redis_failed(operation, if timed_out { "timeout" } else { "error" });
            }
        }
        answer
    }

    /// While Redis is not asked, what it said when it was last asked is told as well: that a password
    /// or a certificate is wrong shows nowhere else.
    pub(crate) fn away(&self, operation: &'static str, reason: String) -> RegistryError {
        let mode = self.monitor.mode();
        let reason = match self.monitor.trouble() {
            Some(trouble) if mode != Mode::Normal && !reason.contains(trouble.as_str()) => {
                format!("{reason} ({trouble})")
            }
            _ => reason,
        };
        RegistryError::Unavailable { operation, mode, reason }
    }

    /// In local-only mode nothing is written: nobody else would see it.
    pub(crate) fn may_write(&self, operation: &'static str) -> Result<(), RegistryError> {
        match self.monitor.mode() {
            Mode::LocalOnly => {
                Err(self.away(operation, "it has not answered as it should".to_owned()))
            }
            Mode::Normal | Mode::L2Only => Ok(()),
        }
    }

    /// Has something looked at behind the answer.
    pub(crate) fn queue(&self, work: Work) {
        if let Work::Node(slot) = &work
            && !slot.enqueue()
        {
            return;
        }
        // Nobody takes it any more when the registry has ended, and nobody needs it.
        let _ = self.work.send(work);
    }

    pub(crate) fn flights(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Landing>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
