//! The two modes: how a call reaches its lane.

use std::sync::Arc;

use stile_domain::Lane;

use crate::allocate::{Allocate, allocate};
use crate::core::Core;
use crate::error::NonceError;
use crate::mark::{MarkCall, mark};
use crate::queue::Queues;
use crate::settings::Mode;
use crate::task;
use crate::tx::{SendCall, admit};

/// A call on its way. It owns what it needs: once it is under way, a caller that goes away does
/// not cut it short.
#[derive(Debug)]
pub(crate) enum Call {
    Allocate(Allocate),
    Mark(MarkCall),
    /// Transactions of one lane, in order.
    Send(Lane, Vec<SendCall>),
}

impl Call {
    pub(crate) fn lane(&self) -> Lane {
        match self {
            Self::Allocate(call) => call.lane,
            Self::Mark(call) => call.mark.lane,
            Self::Send(lane, _) => *lane,
        }
    }
}

/// How calls reach their lanes.
#[derive(Debug)]
pub(crate) enum Dispatch {
    /// Each call is a task of its own.
    Basic,
    /// Calls queue for the worker of their lane.
    Queues(Queues),
}

impl Dispatch {
    pub(crate) fn start(core: &Arc<Core>) -> Self {
        match core.settings.mode {
            Mode::Basic => Self::Basic,
            Mode::WorkerQueue(settings) => Self::Queues(Queues::start(core, settings)),
        }
    }

    /// Sends a call on its way. Its answer comes by its own channel.
    pub(crate) async fn send(&self, core: &Arc<Core>, call: Call) -> Result<(), NonceError> {
        if core.stopping.is_cancelled() {
            return Err(NonceError::ShuttingDown);
        }
        match self {
            Self::Basic => {
                let owned = Arc::clone(core);
                core.tasks.spawn(task::SERVE, async move { serve(&owned, vec![call]).await });
                Ok(())
            }
            Self::Queues(queues) => queues.send(call).await,
        }
    }
}

/// Serves calls together: one commit for the marks, one for the allocations,
/// one for each lane's transactions.
pub(crate) async fn serve(core: &Arc<Core>, calls: Vec<Call>) {
    let mut allocations = Vec::with_capacity(calls.len());
    let (mut marks, mut sends) = (Vec::new(), Vec::new());
    for call in calls {
        match call {
            Call::Allocate(call) => allocations.push(call),
            Call::Mark(call) => marks.push(call),
            Call::Send(_, calls) => sends.extend(calls),
        }
    }
    futures::join!(mark(core, marks), allocate(core, allocations), admit(core, sends));
}
