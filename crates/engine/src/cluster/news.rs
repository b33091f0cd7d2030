//! What nodes tell each other.
//!
//! Nothing depends on it: whoever hears nothing looks by itself, a little later. So it is told
//! after the commit it is about, by a transaction of its own, and whatever comes while one is under
//! way goes into the next one.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stile_domain::Lane;
use stile_store::{Heard, LaneNews};
use tokio::sync::Notify;
use tracing::{debug, info};

use crate::core::Core;
use crate::tx::{bind, wishes};
use crate::{keeper, metrics};

/// The least time between two tellings.
const PAUSE: Duration = Duration::from_millis(5);

/// What is to be told, and whether anything is heard.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    waiting: Mutex<HashSet<Lane>>,
    rung: Notify,
    /// Whether this node hears what others tell.
    hears: AtomicBool,
}

impl Bell {
    /// Whether this node hears what others tell.
    pub(crate) fn hears(&self) -> bool {
        self.hears.load(Ordering::Relaxed)
    }

    fn take(&self) -> Vec<LaneNews> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.drain().map(LaneNews::Work).collect()
    }
}

/// There is work on a lane. If it is somebody else's, that node is told.
pub(crate) fn ring(core: &Core, lane: Lane) {
    if core.lanes.holds(lane) {
        return;
    }
    core.bell.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(lane);
    core.bell.rung.notify_one();
}

/// Tells now.
pub(super) async fn tell(core: &Core, news: &[LaneNews]) {
    if news.is_empty() {
        return;
    }
    match core.store.tell_nodes(news).await {
        Ok(()) => metrics::told("sent", news.len()),
        Err(error) => {
            metrics::store_failed("tell_nodes");
            debug!(%error, "the other nodes could not be told; they look by themselves");
        }
    }
}

/// Tells and hears until the node stops.
pub(crate) async fn hear(core: Arc<Core>) {
    let Some(mut ears) = core.store.listen() else { return };
    let telling = async {
        loop {
            core.bell.rung.notified().await;
            let news = core.bell.take();
            tell(&core, &news).await;
            tokio::time::sleep(PAUSE).await;
        }
    };
    let hearing = async {
        while let Some(heard) = ears.recv().await {
            match heard {
                Heard::News(news) => act(&core, news).await,
                Heard::Listening => {
                    core.bell.hears.store(true, Ordering::Relaxed);
                    bind::look(&core).await;
                }
                Heard::Deaf => {
                    if core.bell.hears.swap(false, Ordering::Relaxed) {
                        info!("notifications are not heard; lanes are looked at more often");
                    }
                }
            }
        }
    };
    tokio::select! {
        () = core.stopping.cancelled() => {}
        () = telling => {}
        () = hearing => {}
    }
}

/// Does what was told of: works the lanes that are held here, takes those that were handed here.
async fn act(core: &Arc<Core>, news: Vec<LaneNews>) {
    metrics::told("heard", news.len());
    let (mut work, mut handed) = (Vec::new(), false);
    for news in news {
        match news {
            LaneNews::Work(lane) if core.lanes.holds(lane) => work.push(lane),
            LaneNews::Work(_) => {}
            LaneNews::HandedOver(lane) => {
                let preferred = core.members.preferred(&core.holder, lane);
                handed |=
                    preferred.is_some_and(|holder| holder.incarnation == core.holder.incarnation);
            }
        }
    }
    if handed {
        keeper::take_over(core).await;
    }
    if !work.is_empty() {
        for lane in &work {
            let slot = core.lanes.slot(*lane);
            slot.set_waiting(true);
            bind::wake(core, &slot);
        }
        wishes::look(core, &work).await;
    }
}
