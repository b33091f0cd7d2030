//! Connections: taking them, and ending all of them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::Connection;
use super::farewell::Farewell;
use super::options::Limits;
use super::slots::Slots;
use super::tls::Tls;
use crate::measure;

/// What connections are taken with.
pub(super) struct Door {
    pub(super) routes: Router,
    pub(super) limits: Limits,
    pub(super) tls: Option<Arc<Tls>>,
    /// No more is taken; calls that run go on to their end.
    pub(super) stop: CancellationToken,
    /// What still runs ends now.
    pub(super) cut: CancellationToken,
}

/// How long to leave a system alone that has no more files.
const BREATH: Duration = Duration::from_millis(100);

impl Door {
    /// Takes connections until it is to stop, and then waits for those that it has.
    pub(super) async fn serve(self, listener: TcpListener) {
        let slots = Slots::new(self.limits.connections, self.limits.connections_per_address);
        let (tasks, farewell) = (TaskTracker::new(), Farewell::new());
        let mut is_failing = false;
        loop {
            let taken = tokio::select! {
                () = self.stop.cancelled() => break,
                taken = listener.accept() => taken,
            };
            match taken {
                Ok((stream, peer)) => {
                    is_failing = false;
                    match slots.take(peer.ip()) {
                        Ok(slot) => {
                            // A short answer is not to wait for the next.
                            let _ = stream.set_nodelay(true);
                            tasks.spawn(Connection::new(&self, slot, peer).run(stream));
                        }
                        Err(full) => {
                            measure::connection_refused(full.name());
                            // Inside TLS it could be told only after a handshake, which is dear.
                            if self.tls.is_none() {
                                farewell.say(stream, &tasks, &self.stop);
                            }
                        }
                    }
                }
                Err(error) if is_the_callers(&error) => {}
                Err(error) => {
                    if !std::mem::replace(&mut is_failing, true) {
                        tracing::error!(%error, "connections cannot be taken");
                    }
                    tokio::time::sleep(BREATH).await;
                }
            }
        }
        drop(listener);
        tasks.close();
        tokio::select! {
            () = tasks.wait() => {}
            () = self.cut.cancelled() => {}
        }
    }
}

/// Whether only one caller is concerned.
fn is_the_callers(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
