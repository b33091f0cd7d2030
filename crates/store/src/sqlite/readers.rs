//! Connections that read beside the writer.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use crate::StoreError;

/// Idle connections kept for the next read.
const KEEP: usize = 8;

/// How many steps of SQLite's machine pass between two looks at the clock: well below a millisecond.
const STEPS_PER_LOOK: i32 = 10_000;

#[derive(Debug, Clone)]
pub(super) struct Readers {
    path: PathBuf,
    /// The longest a read may take.
    limit: Duration,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Readers {
    pub(super) fn new(path: PathBuf, limit: Duration) -> Self {
        Self { path, limit, idle: Arc::default() }
    }

    /// Runs a read on a thread that may block, and ends it when its time is over. A connection on
    /// which it failed is not used again.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let readers = self.clone();
        tokio::task::spawn_blocking(move || {
            let mut connection = match readers.idle().pop() {
                Some(connection) => connection,
                None => readers.connect()?,
            };
            let until = Instant::now() + readers.limit;
            connection.progress_handler(STEPS_PER_LOOK, Some(move || Instant::now() >= until))?;
            let result = work(&connection).map_err(|error| match Instant::now() >= until {
                true => StoreError::Unavailable(format!(
                    "a read was ended after {:?}, store.statement_timeout: {error}",
                    readers.limit
                )),
                false => error,
            });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn hole_36_a_read_that_takes_too_long_is_ended() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("stile.db");
        drop(super::super::connect(&path).expect("a database"));
        let readers = Readers::new(path, Duration::from_millis(50));
        let counting = |to: u32| {
            readers.read(move |connection| {
                let sql = format!(
                    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {to})
                     SELECT count(*) FROM n"
                );
                Ok(connection.query_row(&sql, [], |row| row.get::<_, u32>(0))?)
            })
        };
        let error = counting(100_000_000).await.expect_err("it takes too long");
        let StoreError::Unavailable(text) = &error else { panic!("{error:?}") };
        assert!(text.contains("ended after 50ms, store.statement_timeout"), "{text}");
        assert_eq!(counting(10).await.expect("the next one has its own time"), 10);
    }
}
