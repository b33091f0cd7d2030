//! The workers of worker-queue mode.
//!
//! Each worker has a bounded queue and takes whatever waits in it as one batch: while a batch is
//! being committed the next one gathers, so batches grow with the load and an idle worker adds no
//! delay. Only store steps run on a worker. Questions to the chain and callers' handlers run
//! elsewhere and come back as calls.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::mpsc::{Receiver, Sender, channel, error::SendTimeoutError};

use crate::core::Core;
use crate::dispatch::{Call, serve};
use crate::error::NonceError;
use crate::metrics;
use crate::settings::{QueueSettings, RejectPolicy};
use crate::task;

/// Calls committed together at most.
const BATCH_LIMIT: usize = 1000;

#[derive(Debug)]
struct Queued {
    call: Call,
    since: Instant,
}

#[derive(Debug)]
pub(crate) struct Queues {
    senders: Vec<Sender<Queued>>,
    reject: RejectPolicy,
}

impl Queues {
    /// Starts the workers. They end when the node stops and their queues are empty.
    pub(crate) fn start(core: &Arc<Core>, settings: QueueSettings) -> Self {
        let senders = (0..settings.workers)
            .map(|worker| {
                let (sender, receiver) = channel(settings.capacity);
                core.tasks.spawn(task::QUEUE, work(Arc::clone(core), worker, receiver));
                sender
            })
            .collect();
        Self { senders, reject: settings.reject }
    }

    pub(crate) async fn send(&self, call: Call) -> Result<(), NonceError> {
        let sender = &self.senders[call.lane().worker(self.senders.len())];
        let queued = Queued { call, since: Instant::now() };
        match self.reject {
            RejectPolicy::FailFast => sender.try_send(queued).map_err(|error| match error {
                tokio::sync::mpsc::error::TrySendError::Full(_) => full("fail-fast"),
                tokio::sync::mpsc::error::TrySendError::Closed(_) => NonceError::ShuttingDown,
            }),
            RejectPolicy::CallerWaits(patience) => {
                sender.send_timeout(queued, patience).await.map_err(|error| match error {
                    SendTimeoutError::Timeout(_) => full("caller-waits"),
                    SendTimeoutError::Closed(_) => NonceError::ShuttingDown,
                })
            }
        }
    }
}

fn full(policy: &'static str) -> NonceError {
    metrics::queue_rejected(policy);
    NonceError::QueueFull
}

async fn work(core: Arc<Core>, worker: usize, mut queue: Receiver<Queued>) {
    let mut waiting = Vec::with_capacity(BATCH_LIMIT);
    loop {
        tokio::select! {
            biased;
            count = queue.recv_many(&mut waiting, BATCH_LIMIT) => {
                if count == 0 {
                    return;
                }
            }
            // No more calls are taken in; what is queued is still served.
            () = core.stopping.cancelled(), if !queue.is_closed() => {
                queue.close();
                continue;
            }
        }
        metrics::queue_depth(worker, queue.len());
        let now = Instant::now();
        metrics::queue_waited(waiting.iter().map(|queued| now.duration_since(queued.since)));
        serve(&core, waiting.drain(..).map(|queued| queued.call).collect()).await;
    }
}
