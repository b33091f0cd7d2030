//! Finding out what a chain's endpoints can do, beside everything else.

use std::sync::Arc;
use std::time::Duration;

use crate::core::Core;
use crate::tx::track::Track;

/// How often it is looked whether something is to be found out. At most times nothing is.
const TICK: Duration = Duration::from_millis(250);

pub(crate) async fn run(core: Arc<Core>, track: Arc<Track>) {
    loop {
        tokio::select! {
            () = core.stopping.cancelled() => return,
            () = tokio::time::sleep(TICK) => {}
        }
        tokio::select! {
            () = core.stopping.cancelled() => return,
            () = track.pool.learn() => {}
        }
    }
}
