//! One transaction or one read on a pooled connection.
//!
//! A connection goes back to the pool only after it was brought to a clean end. On every other
//! path, an error, a deadline, a dropped future, it is closed instead, and the server rolls back
//! what was open. So nothing can leak from one call into the next.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{HookError, Object, Pool, PoolError};
use futures::future::join_all;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row};

use super::connect::{self, NOT_DURABLE, PostgresOptions};
use super::reached::{Position, Reached};
use super::statement::{Place, Prepared, Statements};
use crate::StoreError;

pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A statement with its parameters.
pub(super) type Statement<'a> = (&'static str, Params<'a>);

/// The pool, how statements are prepared, and the one that opens a transaction.
#[derive(Debug, Clone)]
pub(super) struct Sessions {
    pool: Pool,
    options: PostgresOptions,
    statements: Statements,
    begin: String,
    begin_read: String,
    deadline: Duration,
    reached: Arc<Reached>,
}

impl Sessions {
    /// One connection of its own, for renewals: it waits for nobody's statements, and gives up on a
    /// server that does not answer in time to try again before the lease is over.
    pub(super) fn for_renewals(
        options: &PostgresOptions,
        reached: &Arc<Reached>,
    ) -> Result<Self, StoreError> {
        // Three fifths of a lease.
        let deadline = options.idle_in_transaction_timeout * 3 / 2;
        let options = PostgresOptions {
            pool_size: 1,
            statement_timeout: options.statement_timeout.min(deadline),
            lock_timeout: options.lock_timeout.min(deadline),
            ..options.clone()
        };
        Ok(Self { deadline, ..Self::new(options, reached)? })
    }

    /// One connection of its own, for taking lanes over.
    pub(super) fn for_takeovers(
        options: &PostgresOptions,
        reached: &Arc<Reached>,
    ) -> Result<Self, StoreError> {
        Self::new(PostgresOptions { pool_size: 1, ..options.clone() }, reached)
    }

    pub(super) fn new(
        options: PostgresOptions,
        reached: &Arc<Reached>,
    ) -> Result<Self, StoreError> {
        let pool = connect::pool_of(&options, Arc::clone(reached))?;
        // Settings are local to the transaction, because a pooler may hand the connection to
        // somebody else after it. Every statement of ours finds its rows by key; without the hint
        // a plan made while the tables were empty would scan them when they are not. So one plan
        // does for all values, and making a new one each time would cost more than a small batch.
        // The hint makes a scan that has to be, such as that for expired lanes, look so costly
        // that the server would compile it each time, for longer than it takes to run.
        let begin = format!(
            "BEGIN; SET LOCAL statement_timeout = {}; SET LOCAL lock_timeout = {}; \
             SET LOCAL idle_in_transaction_session_timeout = {}; SET LOCAL enable_seqscan = off; \
             SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL jit = off",
            options.statement_timeout.as_millis(),
            options.lock_timeout.as_millis(),
            options.idle_in_transaction_timeout.as_millis(),
        );
        let begin_read = format!(
            "BEGIN READ ONLY; SET LOCAL statement_timeout = {}",
            options.statement_timeout.as_millis()
        );
        // Only a server that does not answer at all is given up on by this clock.
        let deadline = crate::patience(options.statement_timeout);
        let statements = Statements::new(options.pooler);
        let reached = Arc::clone(reached);
        Ok(Self { pool, options, statements, begin, begin_read, deadline, reached })
    }

    /// How far the database has been seen to come.
    pub(super) fn reached(&self) -> &Arc<Reached> {
        &self.reached
    }

    /// Opens a write transaction with its first statement; both travel together. Should the
    /// opening fail, the statement fails with it, in the same aborted transaction.
    pub(super) async fn begin(
        &self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<(Transaction, Vec<Row>), StoreError> {
        let session = self.session().await?;
        let statement = session.prepare(sql, Place::Outside).await?;
        let begin = session.client().batch_execute(&self.begin);
        let first = statement.query(session.client(), params);
        let (begun, rows) = futures::join!(begin, first);
        begun?;
        Ok((Transaction { session, reads: None }, rows?))
    }

    /// A write transaction of one statement; all of it travels together. If the statement fails the
    /// server turns the commit into a rollback.
    pub(super) async fn write(
        &self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.within(StoreError::CommitUnknown, async {
            let session = self.session().await?;
            let statement = session.prepare(sql, Place::Outside).await?;
            let begin = session.client().batch_execute(&self.begin);
            let only = statement.query(session.client(), params);
            let commit = session.client().batch_execute("COMMIT");
            let (begun, rows, committed) = futures::join!(begin, only, commit);
            // The commit was on its way before any answer was: without one, nothing is certain.
            let rows = concluded(begun.and(rows), committed)?;
            session.finish();
            Ok(rows)
        })
        .await
    }

    /// A read of the hot path, by a plan that is made once.
    pub(super) async fn read_often(
        &self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.write(sql, params).await.map_err(|error| match error {
            // There was nothing to commit.
            StoreError::CommitUnknown(text) => StoreError::Unavailable(text),
            error => error,
        })
    }

    /// Runs one read, in a transaction of its own in which the server ends it when its time is over:
    /// a setting of the session would be lost behind a pooler. All of it travels together. It is
    /// planned anew each time, because what is open and what is history changes too much for one
    /// plan.
    pub(super) async fn read(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, StoreError> {
        self.within(StoreError::Unavailable, async {
            let session = self.session().await?;
            let begin = session.client().batch_execute(&self.begin_read);
            let only = session.client().query_typed(sql, params);
            let commit = session.client().batch_execute("COMMIT");
            let (begun, rows, committed) = futures::join!(begin, only, commit);
            let rows = begun.and(rows).map_err(|error| self.timed_out(error))?;
            committed?;
            session.finish();
            Ok(rows)
        })
        .await
    }

    /// Says so if it was the time limit that ended a read.
    fn timed_out(&self, error: Error) -> StoreError {
        match error.code() {
            Some(&SqlState::QUERY_CANCELED) => StoreError::Unavailable(format!(
                "a read was ended by the server after {:?}, store.statement_timeout: {}",
                self.options.statement_timeout,
                describe(&error)
            )),
            _ => error.into(),
        }
    }

    /// Gives up on a server that does not answer. `late` says what that means: for a write, that
    /// its fate is unknown.
    pub(super) async fn within<T>(
        &self,
        late: fn(String) -> StoreError,
        work: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        tokio::time::timeout(self.deadline, work)
            .await
            .unwrap_or_else(|_| Err(late(format!("no answer within {:?}", self.deadline))))
    }

    /// A connection of its own for what needs a whole session (migrations).
    pub(super) async fn session(&self) -> Result<Session, StoreError> {
        let client = self.pool.get().await.map_err(pool_error)?;
        let statements = self.statements.clone();
        Ok(Session { client: Some(client), statements, clean: false })
    }

    /// A connection beside the pool, for what has to go on while the pool is used.
    pub(super) async fn beside(&self) -> Result<Object, StoreError> {
        let pool = connect::pool_of(
            &PostgresOptions { pool_size: 1, ..self.options.clone() },
            Arc::clone(&self.reached),
        )?;
        pool.get().await.map_err(pool_error)
    }

    pub(super) fn close(&self) {
        self.pool.close();
    }
}

/// A connection on loan.
pub(super) struct Session {
    client: Option<Object>,
    statements: Statements,
    clean: bool,
}

impl Session {
    pub(super) fn client(&self) -> &Object {
        self.client.as_ref().expect("present until dropped")
    }

    pub(super) fn client_mut(&mut self) -> &mut Object {
        self.client.as_mut().expect("present until dropped")
    }

    async fn prepare(&self, sql: &'static str, place: Place) -> Result<Prepared, Error> {
        self.statements.prepare(self.client(), sql, place).await
    }

    /// Says that nothing is open on the connection: it may be used again.
    pub(super) fn finish(mut self) {
        self.clean = true;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(client) = self.client.take()
            && !self.clean
        {
            drop(Object::take(client));
        }
    }
}

/// An open transaction. Dropping it rolls back.
pub(super) struct Transaction {
    session: Session,
    /// The place in the log that was read in it.
    reads: Option<(Arc<Reached>, Position)>,
}

impl Transaction {
    /// Takes note of the place in the log that was read in it.
    pub(super) fn read_at(&mut self, reached: &Arc<Reached>, position: Position) {
        self.reads = Some((Arc::clone(reached), position));
    }

    /// The commit was answered.
    fn committed(self) {
        if let Some((reached, position)) = &self.reads {
            reached.answered(*position);
        }
        self.session.finish();
    }

    /// Runs a prepared statement.
    pub(super) async fn query(
        &self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let statement = self.session.prepare(sql, Place::Inside).await?;
        Ok(statement.query(self.session.client(), params).await?)
    }

    /// Runs a statement that is planned anew, and whose columns may change with the schema.
    pub(super) async fn query_anew(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, StoreError> {
        Ok(self.session.client().query_typed(sql, params).await?)
    }

    /// Runs a prepared statement for its effect. Answers with the number of rows.
    pub(super) async fn execute(
        &self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<u64, StoreError> {
        let statement = self.session.prepare(sql, Place::Inside).await?;
        Ok(statement.execute(self.session.client(), params).await?)
    }

    /// Runs the last statement and commits; both travel together. If the statement fails the
    /// server turns the commit into a rollback.
    pub(super) async fn execute_and_commit(
        self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<(), StoreError> {
        let statement = self.session.prepare(sql, Place::Inside).await?;
        let last = statement.execute(self.session.client(), params);
        let commit = self.session.client().batch_execute("COMMIT");
        let (executed, committed) = futures::join!(last, commit);
        concluded(executed, committed)?;
        self.committed();
        Ok(())
    }

    /// Runs the last statement for its rows and commits; both travel together.
    pub(super) async fn query_and_commit(
        self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let statement = self.session.prepare(sql, Place::Inside).await?;
        let last = statement.query(self.session.client(), params);
        let commit = self.session.client().batch_execute("COMMIT");
        let (rows, committed) = futures::join!(last, commit);
        let rows = concluded(rows, committed)?;
        self.committed();
        Ok(rows)
    }

    /// Runs statements in order; all of them travel together. Answers with the rows of each.
    pub(super) async fn query_all(
        &self,
        statements: &[Statement<'_>],
    ) -> Result<Vec<Vec<Row>>, StoreError> {
        let prepared = self.prepare_all(statements).await?;
        let running = prepared.iter().zip(statements);
        let running =
            running.map(|(prepared, (_, params))| prepared.query(self.session.client(), params));
        // The first error is the one that matters: what comes after it only fails because of it.
        let answers = join_all(running).await;
        Ok(answers.into_iter().collect::<Result<_, _>>()?)
    }

    /// Runs the last statements for their effect and commits; all of it travels together. If one of
    /// them fails the server turns the commit into a rollback.
    pub(super) async fn execute_all_and_commit(
        self,
        statements: &[Statement<'_>],
    ) -> Result<(), StoreError> {
        let prepared = self.prepare_all(statements).await?;
        let running = prepared.iter().zip(statements);
        let running =
            running.map(|(prepared, (_, params))| prepared.execute(self.session.client(), params));
        let commit = self.session.client().batch_execute("COMMIT");
        let (executed, committed) = futures::join!(join_all(running), commit);
        concluded(executed.into_iter().collect::<Result<Vec<u64>, _>>(), committed)?;
        self.committed();
        Ok(())
    }

    /// Before anything is sent, because what is sent while another statement is being prepared
    /// would overtake that one.
    async fn prepare_all(&self, statements: &[Statement<'_>]) -> Result<Vec<Prepared>, StoreError> {
        let mut prepared = Vec::with_capacity(statements.len());
        for (sql, _) in statements {
            prepared.push(self.session.prepare(sql, Place::Inside).await?);
        }
        Ok(prepared)
    }

    /// Whatever goes wrong from here on, the commit may have happened.
    pub(super) async fn commit(self) -> Result<(), StoreError> {
        self.session.client().batch_execute("COMMIT").await.map_err(|e| unknown(&e))?;
        self.committed();
        Ok(())
    }

    pub(super) async fn rollback(self) -> Result<(), StoreError> {
        self.session.client().batch_execute("ROLLBACK").await?;
        self.session.finish();
        Ok(())
    }
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        let text = describe(&error);
        match error.code().map(SqlState::code) {
            None => Self::Unavailable(text),
            Some(code) if code.starts_with("23") => Self::Constraint(text),
            Some(code) if PASSING.iter().any(|class| code.starts_with(class)) => {
                Self::Unavailable(text)
            }
            Some(_) => Self::Internal(text),
        }
    }
}

/// Classes of errors, and errors, that pass: connection, transaction rollback (deadlock),
/// resources, operator intervention, locks; a standby that takes no writes, a transaction that sat
/// idle for too long, one that took too long; tables, functions and indexes that are not there, as while
/// a backup is being loaded.
const PASSING: [&str; 11] =
    ["08", "40", "53", "57", "55", "25006", "25P03", "25P04", "42P01", "42883", "42P10"];

/// What became of a statement and the commit that was sent right behind it.
fn concluded<T>(statement: Result<T, Error>, commit: Result<(), Error>) -> Result<T, StoreError> {
    match (statement, commit) {
        (Ok(value), Ok(())) => Ok(value),
        // The server said no to the statement, so it cannot have committed.
        (Err(error), _) if error.as_db_error().is_some() => Err(error.into()),
        (Err(error), _) | (Ok(_), Err(error)) => Err(unknown(&error)),
    }
}

fn unknown(error: &Error) -> StoreError {
    StoreError::CommitUnknown(describe(error))
}

fn describe(error: &Error) -> String {
    match error.as_db_error() {
        Some(db) => format!("{} ({})", db.message(), db.code().code()),
        // By itself it says what failed, not why.
        None => match std::error::Error::source(error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        },
    }
}

fn pool_error(error: PoolError) -> StoreError {
    match error {
        PoolError::PostCreateHook(hook) if hook.to_string().contains(NOT_DURABLE) => {
            StoreError::NotDurable
        }
        PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
            StoreError::Unavailable(describe(&error))
        }
        PoolError::Timeout(kind) => {
            StoreError::Unavailable(format!("no connection to be had in time ({kind:?})"))
        }
        other => StoreError::Unavailable(other.to_string()),
    }
}
