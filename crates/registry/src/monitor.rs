//! The mode of this instance, read without a lock and changed by what is measured.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::watch;

use crate::clock::{Clock, Moment};
use crate::error::BackendError;
use crate::metrics;
use crate::mode::{Mode, Observed, Standing};

#[derive(Debug)]
pub(crate) struct Monitor {
    clock: Clock,
    /// What readers see.
    standing: ArcSwap<Standing>,
    /// Whoever changes it holds this, so that no step is lost.
    changing: Mutex<()>,
    modes: watch::Sender<Mode>,
    last_answer: AtomicU64,
    lost_at: AtomicU64,
    back_since: AtomicU64,
    /// What the last call or probe that failed was told.
    trouble: ArcSwapOption<String>,
}

impl Monitor {
    pub(crate) fn new(clock: Clock, standing: Standing) -> Self {
        metrics::mode(standing.mode);
        Self {
            standing: ArcSwap::from_pointee(standing),
            changing: Mutex::default(),
            modes: watch::Sender::new(standing.mode),
            last_answer: AtomicU64::new(clock.now().0),
            lost_at: AtomicU64::new(0),
            back_since: AtomicU64::new(0),
            trouble: ArcSwapOption::empty(),
            clock,
        }
    }

    #[inline]
    pub(crate) fn mode(&self) -> Mode {
        self.standing.load().mode
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Mode> {
        self.modes.subscribe()
    }

    /// When Redis was last heard of before it was given up, the last time that it was.
    pub(crate) fn lost_at(&self) -> Moment {
        Moment(self.lost_at.load(Ordering::Relaxed))
    }

    /// Since when Redis is there again; the beginning of time if it was never away.
    pub(crate) fn back_since(&self) -> Moment {
        Moment(self.back_since.load(Ordering::Relaxed))
    }

    /// What was said when a call last failed.
    pub(crate) fn trouble(&self) -> Option<Arc<String>> {
        self.trouble.load_full()
    }

    /// A call or a probe failed for this reason.
    pub(crate) fn failed(&self, observed: Observed, error: &BackendError) {
        self.trouble.store(Some(Arc::new(error.to_string())));
        self.observed(observed);
    }

    pub(crate) fn observed(&self, observed: Observed) {
        let now = self.clock.now();
        if matches!(observed, Observed::Answer | Observed::ProbeAnswer) {
            self.last_answer.store(now.0, Ordering::Relaxed);
            if self.standing.load().is_calm() {
                return;
            }
        }
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = **self.standing.load();
        let after = before.after(observed);
        self.standing.store(after.into());
        if before.mode == after.mode {
            return;
        }
        if before.mode == Mode::Normal {
            self.lost_at.store(self.last_answer.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        if after.mode == Mode::Normal {
            self.back_since.store(now.0, Ordering::Relaxed);
            tracing::info!(mode = %after.mode, "Redis answers again");
        } else if matches!(observed, Observed::Answer | Observed::ProbeAnswer) {
            tracing::info!(from = %before.mode, mode = %after.mode, "Redis begins to answer again");
        } else {
            let reason = self.trouble().unwrap_or_default();
            tracing::warn!(
                from = %before.mode, mode = %after.mode, %reason, "Redis does not answer as it should"
            );
        }
        metrics::mode(after.mode);
        metrics::mode_changed(before.mode, after.mode);
        self.modes.send_replace(after.mode);
    }
}
