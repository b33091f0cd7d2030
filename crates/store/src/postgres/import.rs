//! Nonces taken over from V1, and the ledger as it goes back.

use stile_domain::v1::export::LedgerNonce;
use stile_domain::{B256, HoldStatus, Lane, LaneEventKind, NodeId, Nonce};
use tokio_postgres::types::{Json, Type};
use uuid::Uuid;

use super::rows;
use super::session::Sessions;
use crate::{ImportPart, Imported, StoreError};

pub(super) async fn import_lane(
    sessions: &Sessions,
    node: &NodeId,
    part: ImportPart<'_>,
) -> Result<Imported, StoreError> {
    let (chain, signer) = (rows::chain(part.lane), part.lane.signer.as_slice());
    let nonces: Vec<i64> = part.nonces.iter().map(|row| row.nonce.cast_signed()).collect();
    let holds: Vec<Uuid> = part.nonces.iter().map(|row| row.hold.0).collect();
    let statuses: Vec<&str> = part.nonces.iter().map(|row| row.status.name()).collect();
    let hashes: Vec<Option<&[u8]>> =
        part.nonces.iter().map(|row| row.tx_hash.as_ref().map(|hash| hash.as_slice())).collect();
    let reasons: Vec<&str> = part.nonces.iter().map(|row| row.reason).collect();
    sessions
        .within(StoreError::CommitUnknown, async {
            let (transaction, locked) =
                sessions.begin(include_str!("sql/lock_import.sql"), &[&chain, &signer]).await?;
            let refused = match locked.first() {
                None => Some(Imported::NotFound),
                Some(row) if rows::elsewhere(row)?.is_none() => Some(Imported::Owned),
                Some(_) => None,
            };
            if let Some(refused) = refused {
                transaction.rollback().await?;
                return Ok(refused);
            }
            let written = transaction
                .execute(
                    include_str!("sql/import_nonces.sql"),
                    &[&chain, &signer, &nonces, &holds, &statuses, &hashes, &reasons],
                )
                .await?;
            match &part.end {
                None => transaction.commit().await?,
                Some(end) => {
                    transaction
                        .execute_and_commit(
                            include_str!("sql/end_import.sql"),
                            &[
                                &chain,
                                &signer,
                                &end.cursor.cast_signed(),
                                &end.chain_nonce.cast_signed(),
                                &LaneEventKind::Imported.name(),
                                &node.0,
                                &Json(&end.data),
                            ],
                        )
                        .await?;
                }
            }
            Ok(Imported::Written(written))
        })
        .await
}

pub(super) async fn ledger(
    sessions: &Sessions,
    lane: Lane,
    from: Nonce,
    limit: u32,
) -> Result<Vec<LedgerNonce>, StoreError> {
    let found = sessions
        .read(
            include_str!("sql/ledger.sql"),
            &[
                (&rows::chain(lane), Type::INT8),
                (&lane.signer.as_slice(), Type::BYTEA),
                (&from.cast_signed(), Type::INT8),
                (&i64::from(limit), Type::INT8),
            ],
        )
        .await?;
    let read = |row: &tokio_postgres::Row| {
        let status: &str = row.try_get("status")?;
        let tx_hash: Option<&[u8]> = row.try_get("tx_hash")?;
        Ok(LedgerNonce {
            nonce: rows::nonce(row.try_get("nonce")?),
            owner: row.try_get("owner_id")?,
            status: status.parse::<HoldStatus>().map_err(|_| rows::broken("status"))?,
            tx_hash: tx_hash
                .map(B256::try_from)
                .transpose()
                .map_err(|_| rows::broken("tx_hash"))?,
        })
    };
    found.iter().map(read).collect()
}
