//! Connections that read beside the writer.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rusqlite::{Connection, OpenFlags};

use crate::StoreError;

/// Idle connections kept for the next read.
const KEEP: usize = 8;

#[derive(Debug, Clone)]
pub(super) struct Readers {
    path: PathBuf,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Readers {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, idle: Arc::default() }
    }

    /// Runs a read on a thread that may block. A connection on which it failed is not used again.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let readers = self.clone();
        tokio::task::spawn_blocking(move || {
            let connection = match readers.idle().pop() {
                Some(connection) => connection,
                None => readers.connect()?,
            };
            let result = work(&connection);
            let mut idle = readers.idle();
            if result.is_ok() && idle.len() < KEEP {
                idle.push(connection);
            }
            result
        })
        .await
        .map_err(|e| StoreError::Unavailable(format!("a read was cut short: {e}")))?
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn connect(&self) -> Result<Connection, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        connection.pragma_update(None, "query_only", true)?;
        Ok(connection)
    }
}
