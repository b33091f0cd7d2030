//! What V1 knows.

use std::collections::HashMap;

use stile_domain::v1::{V1Lane, V1Nonce, V1Status};
use stile_domain::{B256, MAX_NONCE, Nonce};
use tokio_postgres::types::Type;

use super::{Cutover, V1, V1Error};

impl V1 {
    /// All signers, as V1 writes them.
    pub async fn signers(&self) -> Result<Vec<String>, V1Error> {
        let client = self.client().await?;
        let found =
            client.query_typed(&self.tables.sql(include_str!("sql/signers.sql")), &[]).await?;
        found.iter().map(|row| Ok(row.try_get("signer")?)).collect()
    }

    /// Whose signers are, by name; empty before the stop-fence is there.
    pub async fn cutovers(&self) -> Result<HashMap<String, Cutover>, V1Error> {
        if !self.is_installed().await? {
            return Ok(HashMap::new());
        }
        let client = self.client().await?;
        let sql = self.tables.sql(include_str!("sql/cutovers.sql"));
        let found = client.query_typed(&sql, &[]).await?;
        found.iter().map(|row| Ok((row.try_get("signer")?, Cutover::read(row)?))).collect()
    }

    /// What V1 knows of a signer.
    pub async fn lane(&self, signer: &str) -> Result<V1Lane, V1Error> {
        let client = self.client().await?;
        let state = self.tables.sql(include_str!("sql/state.sql"));
        let state = client.query_typed(&state, &[(&signer, Type::TEXT)]).await?;
        let next = state.first().map(|row| row.try_get::<_, Option<i64>>(0)).transpose()?.flatten();
        let rows = self.tables.sql(include_str!("sql/allocations.sql"));
        let rows = client.query_typed(&rows, &[(&signer, Type::TEXT)]).await?;
        let nonces: Vec<V1Nonce> =
            rows.iter().map(|row| nonce(signer, row)).collect::<Result<_, _>>()?;
        if let Some(pair) = nonces.windows(2).find(|pair| pair[0].nonce == pair[1].nonce) {
            return Err(wrong(signer, format!("nonce {} is there twice", pair[0].nonce)));
        }
        let next_local_nonce = next.map(|next| number(signer, next)).transpose()?;
        Ok(V1Lane { next_local_nonce, nonces })
    }
}

fn nonce(signer: &str, row: &tokio_postgres::Row) -> Result<V1Nonce, V1Error> {
    let status: &str = row.try_get("status")?;
    let tx_hash: Option<&str> = row.try_get("tx_hash")?;
    Ok(V1Nonce {
        nonce: number(signer, row.try_get("nonce")?)?,
        status: V1Status::read(status),
        tx_hash: tx_hash.and_then(hash),
    })
}

/// A hash as text, or as bytes turned into text; anything else is none.
fn hash(text: &str) -> Option<B256> {
    let text = text.trim();
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("\\x")).unwrap_or(text);
    if digits.len() == 64 { digits.parse().ok() } else { None }
}

fn number(signer: &str, value: i64) -> Result<Nonce, V1Error> {
    u64::try_from(value)
        .ok()
        .filter(|nonce| *nonce < MAX_NONCE)
        .ok_or_else(|| wrong(signer, format!("{value} is no nonce")))
}

fn wrong(signer: &str, what: String) -> V1Error {
    V1Error::Rows { signer: signer.to_owned(), what }
}
