//! What runs behind the answers: looks at what is not fresh any more, probes, and sweeps.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::cache::slot::Slot;
use crate::clock::jittered;
use crate::mode::{Mode, Observed};
use crate::registry::{Inner, Work};

/// So much is looked at in one go; what comes meanwhile is the next.
const AT_ONCE: usize = 512;

const PROBE_INTERVAL: Duration = Duration::from_secs(1);
const FIRST_PROBE: Duration = Duration::from_millis(100);
const SLOWEST_PROBE: Duration = Duration::from_secs(2);

const TICK: Duration = Duration::from_secs(1);
const TICKS_PER_SWEEP: u32 = 10;

pub(crate) fn start(inner: &Arc<Inner>, waiting: mpsc::UnboundedReceiver<Work>) {
    let stop = inner.stop.clone();
    let spawn = |name: &'static str, task: futures::future::BoxFuture<'static, ()>| {
        let stop = stop.clone();
        inner.tasks.spawn(name, async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = task => {}
            }
        });
    };
    spawn("registry-look", Box::pin(look(Arc::clone(inner), waiting)));
    spawn("registry-probe", Box::pin(probe(Arc::clone(inner))));
    spawn("registry-tick", Box::pin(tick(Arc::clone(inner))));
    spawn("registry-refill", Box::pin(refill(Arc::clone(inner))));
}

/// Looks at what readers have left notes about: one question at a time, for everything that has come
/// together while the last one was on its way.
async fn look(inner: Arc<Inner>, mut waiting: mpsc::UnboundedReceiver<Work>) {
    let mut batch = Vec::new();
    while waiting.recv_many(&mut batch, AT_ONCE).await > 0 {
        let mut slots: Vec<Arc<Slot>> = Vec::new();
        let mut doubts = Vec::new();
        for work in batch.drain(..) {
            match work {
                Work::Node(slot) => {
                    doubts.push(slot.doubts());
                    slots.push(slot);
                }
                Work::Config(config) => {
                    // Whoever reads it next has it looked at again.
                    let _ = inner.load_config(&config).await;
                }
            }
        }
        if inner.monitor.mode() == Mode::Normal && !slots.is_empty() {
            // What could not be looked at stays as old as it is, and the next reader says so.
            let _ = inner.check(&slots).await;
        }
        for (slot, doubts) in slots.into_iter().zip(doubts) {
            slot.wanted.store(false, Ordering::Relaxed);
            slot.queued.store(false, Ordering::Release);
            // Somebody has written while it was looked at: what was seen may be from before that.
            if slot.doubts() != doubts {
                slot.doubt();
                inner.queue(Work::Node(slot));
            }
        }
    }
}

/// Asks Redis whether it is there: now and then while it is, with growing pauses while it is not.
async fn probe(inner: Arc<Inner>) {
    let mut pause = FIRST_PROBE;
    let mut modes = inner.monitor.watch();
    loop {
        let normal = *modes.borrow_and_update() == Mode::Normal;
        if normal {
            pause = FIRST_PROBE;
            tokio::select! {
                () = sleep(PROBE_INTERVAL) => {}
                _ = modes.changed() => continue,
            }
        } else {
            sleep(jittered(pause, pause / 2)).await;
        }
        match inner.backend.ping().await {
            Ok(()) => {
                inner.monitor.observed(Observed::ProbeAnswer);
                pause = FIRST_PROBE;
            }
            Err(error) => {
                inner.monitor.failed(Observed::ProbeFailure, &error);
                pause = (pause * 2).min(SLOWEST_PROBE);
            }
        }
    }
}

/// When Redis is back, what somebody wants is looked at little by little, and by each instance at
/// another moment, so that a Redis that has just come up is not knocked over again.
async fn refill(inner: Arc<Inner>) {
    let mut modes = inner.monitor.watch();
    loop {
        if modes.wait_for(|mode| *mode != Mode::Normal).await.is_err()
            || modes.wait_for(|mode| *mode == Mode::Normal).await.is_err()
        {
            return;
        }
        sleep(inner.refill_delay()).await;
        for slots in inner.cache.slots().chunks(AT_ONCE) {
            for slot in slots {
                inner.queue(Work::Node(Arc::clone(slot)));
            }
            sleep(jittered(Duration::from_millis(5), Duration::from_millis(20))).await;
        }
    }
}

/// Tells the recorder, forgets what is over, and looks at configurations that somebody watches.
async fn tick(inner: Arc<Inner>) {
    let mut ticks = interval(TICK.min(inner.settings.l1_ttl));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0u32.. {
        ticks.tick().await;
        inner.reads.flush();
        if number % TICKS_PER_SWEEP == 0 {
            inner.cache.sweep();
            inner.sessions.sweep(inner.cache.now());
        }
        let now = inner.cache.now();
        let due: Vec<_> = {
            let configs = inner.configs.pin();
            configs.values().filter(|config| config.is_due(now)).map(Arc::clone).collect()
        };
        for config in due {
            inner.queue(Work::Config(config));
        }
    }
}
