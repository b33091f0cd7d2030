//! Configurations that all instances share, each under a version.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use crate::backend::Swap;
use crate::cache::slot::Age;
use crate::clock::Moment;
use crate::error::RegistryError;
use crate::registry::{Inner, Work};
use crate::{ConfigName, Mode, Registry};

/// A configuration as it was written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// Its name.
    pub name: ConfigName,
    /// What it says.
    pub value: Value,
    /// Rises with each write, also over a Redis that has lost everything.
    pub version: u64,
    /// When it was written: milliseconds since 1970 by the clock of Redis.
    pub updated_at_ms: u64,
}

/// What is known of one configuration.
#[derive(Debug)]
pub(crate) struct ConfigSlot {
    pub(crate) name: ConfigName,
    known: ArcSwapOption<Config>,
    fresh_until: AtomicU64,
    good_until: AtomicU64,
    changes: watch::Sender<u64>,
}

impl ConfigSlot {
    pub(crate) fn new(name: ConfigName) -> Self {
        Self {
            name,
            known: ArcSwapOption::empty(),
            fresh_until: AtomicU64::new(0),
            good_until: AtomicU64::new(0),
            changes: watch::Sender::new(0),
        }
    }

    fn age(&self, now: Moment) -> Age {
        if now.0 < self.fresh_until.load(Ordering::Relaxed) {
            Age::Fresh
        } else if now.0 < self.good_until.load(Ordering::Relaxed) {
            Age::Older
        } else {
            Age::Old
        }
    }

    pub(crate) fn doubt(&self) {
        self.fresh_until.store(0, Ordering::Relaxed);
    }

    /// Whether somebody watches and it is time to look.
    pub(crate) fn is_due(&self, now: Moment) -> bool {
        self.changes.receiver_count() > 0 && self.age(now) != Age::Fresh
    }

    fn version(&self) -> u64 {
        self.known.load().as_ref().map_or(0, |config| config.version)
    }

    /// Nobody removes a configuration: one that is not there any more has been lost, and what is
    /// known of it goes on to hold.
    pub(crate) fn absorb(&self, config: Option<Config>, lifetimes: (Moment, Moment)) {
        if let Some(config) = config.map(Arc::new) {
            self.known.rcu(|known| match known {
                Some(known) if known.version >= config.version => Some(Arc::clone(known)),
                _ => Some(Arc::clone(&config)),
            });
            let version = self.version();
            self.changes.send_if_modified(|told| {
                let later = *told < version;
                *told = version.max(*told);
                later
            });
        }
        self.good_until.store(lifetimes.1.0, Ordering::Relaxed);
        self.fresh_until.store(lifetimes.0.0, Ordering::Relaxed);
    }
}

/// Follows a configuration.
#[derive(Debug)]
pub struct ConfigWatch {
    slot: Arc<ConfigSlot>,
    changes: watch::Receiver<u64>,
}

impl ConfigWatch {
    /// What is known now.
    pub fn current(&self) -> Option<Arc<Config>> {
        self.slot.known.load_full()
    }

    /// Waits for a version later than the last one returned, or than the one at the beginning.
    /// Versions that were overwritten at once may be skipped.
    pub async fn changed(&mut self) -> Option<Arc<Config>> {
        self.changes.changed().await.ok()?;
        self.changes.borrow_and_update();
        self.current()
    }
}

impl Inner {
    pub(crate) fn config_slot(&self, name: &ConfigName) -> Arc<ConfigSlot> {
        let configs = self.configs.pin();
        let new = || Arc::new(ConfigSlot::new(name.clone()));
        Arc::clone(configs.get_or_insert_with(name.clone(), new))
    }

    pub(crate) async fn load_config(&self, slot: &ConfigSlot) -> Result<(), RegistryError> {
        let since = self.cache.now();
        let config = self.ask("read a configuration", self.backend.config(&slot.name)).await?;
        slot.absorb(config, self.cache.lifetimes(since));
        Ok(())
    }
}

impl Registry {
    /// A configuration, if there is one.
    pub async fn config(&self, name: &ConfigName) -> Result<Option<Arc<Config>>, RegistryError> {
        let inner = self.inner();
        let slot = inner.config_slot(name);
        match (slot.age(inner.cache.now()), inner.monitor.mode()) {
            (Age::Fresh, _) | (Age::Older, Mode::L2Only) | (_, Mode::LocalOnly) => {}
            (Age::Older, Mode::Normal) => inner.queue(Work::Config(Arc::clone(&slot))),
            (Age::Old, _) => inner.load_config(&slot).await?,
        }
        Ok(slot.known.load_full())
    }

    /// Writes a configuration if it is still at the version that the caller decided by; 0 if there
    /// was none.
    pub async fn set_config(
        &self,
        name: &ConfigName,
        expected: u64,
        value: &Value,
    ) -> Result<Arc<Config>, RegistryError> {
        let inner = self.inner();
        inner.may_write("write a configuration")?;
        let slot = inner.config_slot(name);
        let since = inner.cache.now();
        let swap = inner.backend.swap_config(name, expected, value, slot.version());
        match inner.ask("write a configuration", swap).await? {
            Swap::Done(config) => {
                slot.absorb(Some(config.clone()), inner.cache.lifetimes(since));
                Ok(Arc::new(config))
            }
            Swap::Conflict(version) => {
                slot.doubt();
                Err(RegistryError::ConfigConflict { name: name.clone(), version })
            }
        }
    }

    /// Follows a configuration from what is known of it now.
    pub async fn watch_config(&self, name: &ConfigName) -> Result<ConfigWatch, RegistryError> {
        self.config(name).await?;
        let slot = self.inner().config_slot(name);
        let changes = slot.changes.subscribe();
        Ok(ConfigWatch { slot, changes })
    }
}
