//! Who calls: clients that insist, each with chance of its own.
//!
//! | file | who |
//! |---|---|
//! | `caller` | how a call is made, written down and repeated |
//! | `sender` | hands over transfers, repeats, cancels and speeds up |
//! | `holder` | takes bare nonces, signs by itself and says what became of them |
//! | `gapper` | leaves a gap below a transaction |
//! | `repeater` | asks again for what a restore has lost |

mod caller;
mod gapper;
mod holder;
mod repeater;
mod sender;

use std::sync::Arc;

use tokio::task::JoinSet;

use super::stage::Stage;
use super::{HOLD_LANE, Options, QUIET_LANE};
use caller::Caller;

/// Starts all of them. They end by themselves once the stage is closed and they have their answers.
pub(super) fn start(stage: &Arc<Stage>, options: &Options) -> JoinSet<()> {
    let mut clients = JoinSet::new();
    let mut next = 0;
    let mut caller = || {
        next += 1;
        Caller::new(Arc::clone(stage), options.seed, next)
    };
    for _ in 0..options.senders {
        clients.spawn(sender::run(caller()));
    }
    clients.spawn(holder::run(caller(), HOLD_LANE));
    clients.spawn(holder::run(caller(), HOLD_LANE));
    clients.spawn(gapper::run(caller(), QUIET_LANE));
    if options.restores {
        clients.spawn(repeater::run(caller()));
    }
    clients
}
