//! The way back.

use stile_domain::v1::V1Status;
use stile_domain::v1::export::LaneExport;
use tokio_postgres::types::Type;

use super::fence::waiting;
use super::{V1, V1Error};

/// Rows that one statement takes.
const CHUNK: usize = 5000;

/// What was changed in V1's tables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WrittenBack {
    /// Rows that stood otherwise.
    pub changed: u64,
    /// Rows that are new.
    pub added: u64,
}

impl V1 {
    /// Writes a signer's nonces and its next one, and lets V1 go on from there: all of it or nothing.
    pub async fn give_back(
        &self,
        signer: &str,
        export: &LaneExport,
    ) -> Result<WrittenBack, V1Error> {
        let tables = &self.tables;
        let (used, recyclable) = tables.words();
        let is_bytes = tables.type_of("tx_hash") == "bytea";
        let mut client = self.client().await?;
        let transaction = client.transaction().await?;
        transaction.batch_execute(&waiting()).await?;
        let name = (&signer as &(dyn tokio_postgres::types::ToSql + Sync), Type::TEXT);
        let open = tables.sql(include_str!("sql/give_back.sql"));
        transaction.execute_typed(&open, std::slice::from_ref(&name)).await?;
        let mut written = WrittenBack::default();
        for chunk in export.nonces.chunks(CHUNK) {
            let nonces: Vec<i64> = chunk.iter().map(|row| row.nonce.cast_signed()).collect();
            let statuses: Vec<&str> = chunk
                .iter()
                .map(|row| if row.status == V1Status::Recyclable { recyclable } else { used })
                .collect();
            let hashes: Vec<Option<String>> = chunk
                .iter()
                .map(|row| row.tx_hash.map(|hash| hash.to_string()))
                .map(|hash| hash.map(|hash| hash.replacen("0x", prefix(is_bytes), 1)))
                .collect();
            let rows: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 4] = [
                name.clone(),
                (&nonces, Type::INT8_ARRAY),
                (&statuses, Type::TEXT_ARRAY),
                (&hashes, Type::TEXT_ARRAY),
            ];
            let update = tables.touching(include_str!("sql/update.sql"));
            written.changed += transaction.execute_typed(&update, &rows).await?;
            let insert = tables.filling(include_str!("sql/insert.sql"))?;
            written.added += transaction.execute_typed(&insert, &rows).await?;
        }
        let (latest, next) = (export.latest.cast_signed(), export.next_local_nonce.cast_signed());
        let settle = tables.touching(include_str!("sql/settle.sql"));
        written.changed += transaction
            .execute_typed(
                &settle,
                &[
                    name.clone(),
                    (&latest, Type::INT8),
                    (&used, Type::TEXT),
                    (&recyclable, Type::TEXT),
                ],
            )
            .await?;
        let state = tables.filling(include_str!("sql/insert_state.sql"))?;
        transaction.execute_typed(&state, &[name.clone(), (&next, Type::INT8)]).await?;
        let state = tables.touching(include_str!("sql/write_state.sql"));
        transaction.execute_typed(&state, &[name, (&next, Type::INT8)]).await?;
        transaction.commit().await?;
        Ok(written)
    }
}

/// How PostgreSQL reads bytes, or V1 a text.
fn prefix(is_bytes: bool) -> &'static str {
    if is_bytes { "\\x" } else { "0x" }
}
