//! The one thread that writes.
//!
//! It takes whatever jobs wait, runs each in a savepoint of its own, commits them all at once, and
//! only then answers. A job that fails takes back its own part and nobody else's. While one commit
//! is being flushed the next batch gathers, so a busy store pays for far fewer flushes than
//! commits.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::StoreError;

/// Jobs committed together at most, so that no answer waits behind a very long batch.
const GROUP_LIMIT: usize = 256;

/// Runs the work, on the connection or on the reason there is none, and yields what is to be done
/// once the group's commit has gone one way or the other.
type Job = Box<dyn FnOnce(Result<&Connection, StoreError>) -> Answer + Send>;
type Answer = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

#[derive(Debug)]
pub(super) struct Writer {
    jobs: Mutex<Option<Sender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(super) fn start(connection: Connection) -> Result<Self, StoreError> {
        let (jobs, waiting) = channel();
        let thread = std::thread::Builder::new()
            .name("stile-sqlite-writer".into())
            .spawn(move || run(&connection, &waiting))
            .map_err(|e| StoreError::Unavailable(format!("cannot start the writer thread: {e}")))?;
        Ok(Self { jobs: Mutex::new(Some(jobs)), thread: Mutex::new(Some(thread)) })
    }

    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            let result = connection.and_then(|connection| in_savepoint(connection, work));
            Box::new(move |committed| {
                // Whoever asked may have gone away; the commit stands all the same.
                let _ = reply.send(committed.and(result));
            })
        });
        let closed = || StoreError::Unavailable("the store is closed".into());
        {
            let jobs = self.jobs.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            jobs.as_ref().ok_or_else(closed)?.send(job).map_err(|_| closed())?;
        }
        answer.await.map_err(|_| StoreError::CommitUnknown("the writer thread ended".into()))?
    }

    /// Finishes what waits, folds the log back into the database, ends the thread.
    pub(super) async fn close(&self) {
        self.jobs.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        let thread = self.thread.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        if let Some(thread) = thread {
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

fn run(connection: &Connection, waiting: &Receiver<Job>) {
    while let Ok(first) = waiting.recv() {
        let mut group = vec![first];
        group.extend(waiting.try_iter().take(GROUP_LIMIT - 1));
        commit(connection, group);
    }
    // Only if nobody is in the way: to wait, it would hold the write lock, and whoever opens the
    // file next would be kept out for as long.
    let folded = connection
        .busy_timeout(Duration::ZERO)
        .and_then(|()| connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)"));
    if let Err(error) = folded {
        tracing::warn!(%error, "the log could not be folded back; the next start does it");
    }
}

fn commit(connection: &Connection, group: Vec<Job>) {
    let begun = connection.execute_batch("BEGIN IMMEDIATE").map_err(|e| e.to_string());
    let answers: Vec<Answer> = group
        .into_iter()
        .map(|job| match &begun {
            Ok(()) => job(Ok(connection)),
            Err(why) => job(Err(StoreError::Unavailable(why.clone()))),
        })
        .collect();
    let committed = match begun {
        // Every job has its error already.
        Err(_) => Ok(()),
        Ok(()) => connection.execute_batch("COMMIT").map_err(|e| {
            let _ = connection.execute_batch("ROLLBACK");
            e.to_string()
        }),
    };
    for answer in answers {
        answer(committed.clone().map_err(StoreError::CommitUnknown));
    }
}

/// Runs work whose effects vanish if it fails. Savepoints may be nested.
pub(super) fn in_savepoint<T, E: From<rusqlite::Error>>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, E>,
) -> Result<T, E> {
    connection.prepare_cached("SAVEPOINT part")?.execute([])?;
    let result = work(connection);
    if result.is_err() {
        connection.prepare_cached("ROLLBACK TO part")?.execute([])?;
    }
    connection.prepare_cached("RELEASE part")?.execute([])?;
    result
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{
            CannotOpen, ConstraintViolation, DatabaseBusy, DatabaseLocked, DiskFull, ReadOnly,
            SystemIoFailure,
        };
        let text = error.to_string();
        match error.sqlite_error_code() {
            Some(ConstraintViolation) => Self::Constraint(text),
            Some(
                DatabaseBusy | DatabaseLocked | DiskFull | SystemIoFailure | CannotOpen | ReadOnly,
            ) => Self::Unavailable(text),
            _ => Self::Internal(text),
        }
    }
}
