//! The stop-fence: what makes V1's writes fail.
//!
//! A table `stile_cutover` beside V1's says whose each signer is, and a trigger on V1's two tables asks
//! it. The row is changed first and committed, and only then is anything read: so whatever is read is
//! all there will be.

use std::time::Duration;

use serde_json::Value;
use stile_domain::{Lane, Timestamp};
use tokio_postgres::types::{Json, Type};

use super::{LOCK_TIMEOUT, STATEMENT_TIMEOUT, V1, V1Error};

/// Whose a signer is, as V1's database says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutoverState {
    /// V1 writes it.
    V1,
    /// Nobody does: it is being moved, or was when that was cut short.
    Fenced,
    /// It has moved.
    Stile,
}

/// What V1's database says of a move.
#[derive(Debug, Clone, PartialEq)]
pub struct Cutover {
    /// Whose it is.
    pub state: CutoverState,
    /// The chain that it was moved to.
    pub chain_id: Option<u64>,
    /// The account that it was taken for.
    pub address: Option<String>,
    /// Since when.
    pub at: Timestamp,
    /// What became of its nonces.
    pub report: Option<Value>,
}

impl Cutover {
    pub(super) fn read(row: &tokio_postgres::Row) -> Result<Self, V1Error> {
        let state: &str = row.try_get("state")?;
        Ok(Self {
            state: match state {
                "FENCED" => CutoverState::Fenced,
                "STILE" => CutoverState::Stile,
                _ => CutoverState::V1,
            },
            chain_id: row.try_get::<_, Option<i64>>("chain_id")?.map(i64::unsigned_abs),
            address: row.try_get("address")?,
            at: row.try_get("at")?,
            report: row.try_get::<_, Option<Json<Value>>>("report")?.map(|json| json.0),
        })
    }
}

/// How long tables are waited for at a time. V1's writers queue up behind whoever waits, so it waits
/// only briefly, and tries again.
const BRIEFLY: Duration = Duration::from_millis(500);

/// How often.
const TRIES: usize = 60;

impl V1 {
    /// Whether the stop-fence is there.
    pub async fn is_installed(&self) -> Result<bool, V1Error> {
        let client = self.client().await?;
        let (schema, state) = (&self.tables.schema, &self.tables.state_name);
        let row = client
            .query_typed_one(
                include_str!("sql/installed.sql"),
                &[
                    (schema, Type::TEXT),
                    (state, Type::TEXT),
                    (&self.tables.allocation_name, Type::TEXT),
                ],
            )
            .await?;
        Ok(row.try_get("has_table")? && row.try_get::<_, i64>("triggers")? == 4)
    }

    /// Puts the stop-fence up, open for all signers. Locks V1's tables for a moment.
    pub async fn install(&self) -> Result<(), V1Error> {
        for tried in 1.. {
            if self.is_installed().await? {
                break;
            }
            match self.try_install().await {
                Err(V1Error::Store(crate::StoreError::Unavailable(_))) if tried < TRIES => {
                    tokio::time::sleep(BRIEFLY).await;
                }
                done => return done,
            }
        }
        Ok(())
    }

    async fn try_install(&self) -> Result<(), V1Error> {
        let mut client = self.client().await?;
        let transaction = client.transaction().await?;
        let patience = format!("SET LOCAL lock_timeout = {}", BRIEFLY.as_millis());
        transaction.batch_execute(&patience).await?;
        transaction.batch_execute(&self.tables.sql(include_str!("sql/install.sql"))).await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Stops V1 from writing a signer, once the writers that were let through are done. One that is
    /// stopped already, or has moved, stays as it is.
    pub async fn fence(&self, signer: &str, lane: Lane) -> Result<(), V1Error> {
        let (chain, address) = (lane.chain.get().cast_signed(), lane.signer.to_string());
        let mut client = self.client().await?;
        let transaction = client.transaction().await?;
        transaction.batch_execute(&waiting()).await?;
        transaction
            .execute_typed(
                &self.tables.sql(include_str!("sql/fence.sql")),
                &[(&signer, Type::TEXT), (&chain, Type::INT8), (&address, Type::TEXT)],
            )
            .await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Says that a signer has moved, with what became of its nonces.
    pub async fn finish(&self, signer: &str, report: &Value) -> Result<(), V1Error> {
        let client = self.client().await?;
        client
            .execute_typed(
                &self.tables.sql(include_str!("sql/finish.sql")),
                &[(&signer, Type::TEXT), (&Json(report), Type::JSON)],
            )
            .await?;
        Ok(())
    }

    /// Lets V1 go on with a signer that was stopped and has not moved. Only for whoever knows that
    /// Stile does not have it.
    pub async fn lift(&self, signer: &str) -> Result<(), V1Error> {
        let client = self.client().await?;
        let sql = self.tables.sql(include_str!("sql/lift.sql"));
        client.execute_typed(&sql, &[(&signer, Type::TEXT)]).await?;
        Ok(())
    }
}

/// How long a transaction may wait and run.
pub(super) fn waiting() -> String {
    format!(
        "SET LOCAL lock_timeout = {}; SET LOCAL statement_timeout = {}",
        LOCK_TIMEOUT.as_millis(),
        STATEMENT_TIMEOUT.as_millis()
    )
}
