//! Statements, with a pooler in between and without.
//!
//! PostgreSQL keeps a prepared statement under a name with the connection it was prepared on. A
//! pooler in transaction mode puts each transaction on any of its connections, where that name
//! means nothing, or something else. So behind one a statement is sent along each time, without a
//! name. That needs the types of its parameters, which are asked for once and then known here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use deadpool_postgres::Object;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row};

use super::session::Params;

/// What stands between Stile and PostgreSQL.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pooler {
    /// Nothing, or a pooler that keeps a connection for each of ours.
    #[default]
    None,
    /// One that keeps it for a transaction only, such as PgBouncer in transaction mode.
    Transaction,
}

/// How statements are prepared.
#[derive(Debug, Clone)]
pub(super) struct Statements {
    /// The parameters of statements that are sent along; `None` where they have names.
    types: Option<Arc<Mutex<HashMap<&'static str, Types>>>>,
}

type Types = Arc<[Type]>;

/// A statement that is ready to run.
pub(super) enum Prepared {
    /// The connection knows it.
    Named(tokio_postgres::Statement),
    /// It is sent along.
    Sent(&'static str, Types),
}

/// Where on a connection a statement is prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// No transaction is open.
    Outside,
    /// Inside an open one.
    Inside,
}

impl Statements {
    pub(super) fn new(pooler: Pooler) -> Self {
        Self { types: (pooler == Pooler::Transaction).then(Arc::default) }
    }

    pub(super) async fn prepare(
        &self,
        client: &Object,
        sql: &'static str,
        place: Place,
    ) -> Result<Prepared, Error> {
        let Some(known) = &self.types else {
            return client.prepare_cached(sql).await.map(Prepared::Named);
        };
        let found = known.lock().unwrap_or_else(PoisonError::into_inner).get(sql).cloned();
        let types = match found {
            Some(types) => types,
            None => {
                let types = ask(client, sql, place).await?;
                let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                known.entry(sql).or_insert(types).clone()
            }
        };
        Ok(Prepared::Sent(sql, types))
    }
}

/// Asks for the types of a statement's parameters. The statement has a name for as long as that
/// takes, so all of it happens in one transaction, on one connection of the pooler.
async fn ask(client: &Object, sql: &str, place: Place) -> Result<Types, Error> {
    if place == Place::Outside {
        client.batch_execute("BEGIN").await?;
    }
    let types = client.prepare(sql).await?.params().to_vec();
    if place == Place::Outside {
        client.batch_execute("ROLLBACK").await?;
    }
    Ok(types.into())
}

impl Prepared {
    pub(super) async fn query(
        &self,
        client: &Object,
        params: Params<'_>,
    ) -> Result<Vec<Row>, Error> {
        match self {
            Self::Named(statement) => client.query(statement, params).await,
            Self::Sent(sql, types) => client.query_typed(sql, &typed(params, types)).await,
        }
    }

    /// Answers with the number of rows.
    pub(super) async fn execute(&self, client: &Object, params: Params<'_>) -> Result<u64, Error> {
        match self {
            Self::Named(statement) => client.execute(statement, params).await,
            Self::Sent(sql, types) => client.execute_typed(sql, &typed(params, types)).await,
        }
    }
}

fn typed<'p>(params: Params<'p>, types: &Types) -> Vec<(&'p (dyn ToSql + Sync), Type)> {
    params.iter().copied().zip(types.iter().cloned()).collect()
}
