//! The one thread that writes.
//!
//! It takes whatever jobs wait, runs each in a savepoint of its own, commits them all at once, and
//! only then answers. A job that fails takes back its own part and nobody else's. While one commit
//! is being flushed the next batch gathers, so a busy store pays for far fewer flushes than
//! commits. So does one that panics: the thread goes on.
//!
//! Renewals of leases go first: the thread ends its batch after the job at hand and commits them
//! before anything else that waits.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
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

/// Jobs that go before all others.
#[derive(Clone, Default)]
struct First(Arc<Mutex<VecDeque<Job>>>);

impl First {
    fn push(&self, job: Job) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(job);
    }

    fn take(&self) -> Vec<Job> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

impl std::fmt::Debug for First {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("First").finish_non_exhaustive()
    }
}

/// What the thread is woken by.
enum Wake {
    Job(Job),
    /// Something is to go first.
    First,
}

#[derive(Debug)]
pub(super) struct Writer {
    jobs: Mutex<Option<Sender<Wake>>>,
    first: First,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(super) fn start(connection: Connection) -> Result<Self, StoreError> {
        let (jobs, waiting) = channel();
        let first = First::default();
        let before = first.clone();
        let thread = std::thread::Builder::new()
            .name("stile-sqlite-writer".into())
            .spawn(move || run(&connection, &waiting, &before))
            .map_err(|e| StoreError::Unavailable(format!("cannot start the writer thread: {e}")))?;
        Ok(Self { jobs: Mutex::new(Some(jobs)), first, thread: Mutex::new(Some(thread)) })
    }

    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.send(work, Wake::Job).await
    }

    /// Before all that waits.
    pub(super) async fn write_first<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.send(work, |job| {
            self.first.push(job);
            Wake::First
        })
        .await
    }

    async fn send<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
        wake: impl FnOnce(Job) -> Wake,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            let result = connection.and_then(|connection| without_panic(connection, work));
            Box::new(move |committed| {
                // Whoever asked may have gone away; the commit stands all the same.
                let _ = reply.send(committed.and(result));
            })
        });
        let closed = || StoreError::Unavailable("the store is closed".into());
        {
            let jobs = self.jobs.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            jobs.as_ref().ok_or_else(closed)?.send(wake(job)).map_err(|_| closed())?;
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

fn run(connection: &Connection, waiting: &Receiver<Wake>, first: &First) {
    // What was taken from the queue and had to step back.
    let mut put_off: VecDeque<Job> = VecDeque::new();
    loop {
        if put_off.is_empty() && first.is_empty() {
            match waiting.recv() {
                Ok(Wake::Job(job)) => put_off.push_back(job),
                Ok(Wake::First) => {}
                Err(_) => break,
            }
        }
        let ahead = first.take();
        if !ahead.is_empty() {
            commit(connection, &mut ahead.into(), || false);
        }
        let room = GROUP_LIMIT.saturating_sub(put_off.len());
        let more = waiting.try_iter().take(room).filter_map(|wake| match wake {
            Wake::Job(job) => Some(job),
            Wake::First => None,
        });
        put_off.extend(more);
        if !put_off.is_empty() {
            commit(connection, &mut put_off, || !first.is_empty());
        }
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

/// Commits jobs from the front of the group, all of them unless it is told to stop after the one
/// at hand.
fn commit(connection: &Connection, group: &mut VecDeque<Job>, stop: impl Fn() -> bool) {
    let begun = connection.execute_batch("BEGIN IMMEDIATE").map_err(|e| e.to_string());
    let mut answers: Vec<Answer> = Vec::with_capacity(group.len());
    while let Some(job) = group.pop_front() {
        answers.push(match &begun {
            Ok(()) => job(Ok(connection)),
            Err(why) => job(Err(StoreError::Unavailable(why.clone()))),
        });
        if stop() {
            break;
        }
    }
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

/// Runs work whose panic is its failure, and nobody else's: what stands in the same commit stays.
fn without_panic<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let worked = catch_unwind(AssertUnwindSafe(|| in_savepoint(connection, work)));
    worked.unwrap_or_else(|_| {
        tracing::error!("work on the database has panicked; nothing of it is written");
        Err(StoreError::Internal("it has panicked; the log says where".to_owned()))
    })
}

/// Runs work whose effects vanish if it fails or panics. Savepoints may be nested.
pub(super) fn in_savepoint<T, E: From<rusqlite::Error>>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, E>,
) -> Result<T, E> {
    connection.prepare_cached("SAVEPOINT part")?.execute([])?;
    let worked = catch_unwind(AssertUnwindSafe(|| work(connection)));
    if !matches!(worked, Ok(Ok(_))) {
        connection.prepare_cached("ROLLBACK TO part")?.execute([])?;
    }
    connection.prepare_cached("RELEASE part")?.execute([])?;
    worked.unwrap_or_else(|panic| resume_unwind(panic))
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    #[tokio::test]
    async fn hole_36_what_goes_first_waits_for_the_job_at_hand_alone() {
        let writer = Arc::new(Writer::start(Connection::open_in_memory().unwrap()).unwrap());
        let order: Arc<Mutex<Vec<&str>>> = Arc::default();
        let noted = |what: &'static str| {
            let order = Arc::clone(&order);
            move |_: &Connection| {
                order.lock().unwrap().push(what);
                Ok::<(), StoreError>(())
            }
        };
        let (began, at_work) = oneshot::channel();
        let (go_on, wait) = sync_channel::<()>(0);
        let first = noted("at hand");
        let at_hand = writer.write(move |connection| {
            let _ = began.send(());
            let _ = wait.recv();
            first(connection)
        });
        let others = async {
            at_work.await.unwrap();
            let waiting =
                futures::future::join_all((0..20).map(|_| writer.write(noted("waiting"))));
            let renewal = async {
                let renewal = writer.write_first(noted("renewal"));
                // Both are in their queues before the writer goes on.
                let release = async { go_on.send(()).unwrap() };
                futures::join!(renewal, release).0.unwrap();
            };
            futures::join!(waiting, renewal);
        };
        futures::join!(async { at_hand.await.unwrap() }, others);
        let order = order.lock().unwrap();
        assert_eq!(order[..2], ["at hand", "renewal"]);
        assert_eq!(order.len(), 22);
    }

    #[tokio::test]
    async fn hole_34_work_that_panics_is_taken_back_and_the_thread_goes_on() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (n INTEGER)").unwrap();
        let writer = Writer::start(connection).unwrap();
        let insert = |connection: &Connection, n: i64| -> Result<(), StoreError> {
            connection.execute("INSERT INTO t VALUES (?1)", [n])?;
            Ok(())
        };
        let panics = writer.write(move |connection| -> Result<(), StoreError> {
            insert(connection, 1)?;
            in_savepoint(connection, |connection| -> Result<(), StoreError> {
                insert(connection, 2)?;
                std::panic::panic_any("told to by a test")
            })
        });
        let goes_on = writer.write(move |connection| insert(connection, 3));
        let (panicked, went_on) = tokio::join!(panics, goes_on);
        assert!(matches!(panicked, Err(StoreError::Internal(_))), "{panicked:?}");
        went_on.unwrap();
        let found = writer
            .write(|connection| {
                let mut all = connection.prepare("SELECT n FROM t")?;
                let all = all.query_map([], |row| row.get::<_, i64>(0))?;
                Ok(all.collect::<Result<Vec<i64>, _>>()?)
            })
            .await;
        assert_eq!(found.unwrap(), [3]);
    }
}
