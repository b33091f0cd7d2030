//! V1, as far as it writes: lock the state, give out the oldest recyclable nonce or the next one, and take
//! note of what callers say.

use tokio_postgres::{Client, Error, IsolationLevel};

/// Gives out a nonce. V1 also holds a lock in Redis meanwhile, which changes nothing here.
pub(crate) async fn allocate(client: &mut Client, signer: &str) -> Result<u64, Error> {
    let transaction = client.transaction().await?;
    let state = transaction
        .query_opt(
            "SELECT next_local_nonce FROM submitter_nonce_state WHERE submitter = $1 FOR UPDATE",
            &[&signer],
        )
        .await?;
    let next: i64 = match &state {
        Some(row) => row.get(0),
        None => {
            transaction
                .execute(
                    "INSERT INTO submitter_nonce_state VALUES ($1, NULL, 0, now())",
                    &[&signer],
                )
                .await?;
            0
        }
    };
    let oldest = transaction
        .query_opt(
            "SELECT nonce FROM submitter_nonce_allocation
             WHERE submitter = $1 AND status = 'RECYCLABLE' ORDER BY nonce LIMIT 1",
            &[&signer],
        )
        .await?;
    let nonce = match oldest {
        Some(row) => {
            let nonce: i64 = row.get(0);
            mark(&transaction, signer, nonce, "RESERVED", None).await?;
            nonce
        }
        None => {
            transaction
                .execute(
                    "INSERT INTO submitter_nonce_allocation
                         (submitter, nonce, status, lock_owner, locked_until, updated_at)
                     VALUES ($1, $2, 'RESERVED', 'host-1', now() + interval '1 minute', now())",
                    &[&signer, &next],
                )
                .await?;
            transaction
                .execute(
                    "UPDATE submitter_nonce_state SET next_local_nonce = $2, updated_at = now() WHERE submitter = $1",
                    &[&signer, &(next + 1)],
                )
                .await?;
            next
        }
    };
    transaction.commit().await?;
    Ok(nonce.unsigned_abs())
}

async fn mark(
    client: &impl tokio_postgres::GenericClient,
    signer: &str,
    nonce: i64,
    status: &str,
    hash: Option<&str>,
) -> Result<(), Error> {
    client
        .execute(
            "UPDATE submitter_nonce_allocation SET status = $3, tx_hash = $4, updated_at = now()
             WHERE submitter = $1 AND nonce = $2",
            &[&signer, &nonce, &status, &hash],
        )
        .await?;
    Ok(())
}

pub(crate) async fn mark_used(
    client: &Client,
    signer: &str,
    nonce: u64,
    hash: &str,
) -> Result<(), Error> {
    mark(client, signer, nonce.cast_signed(), "USED", Some(hash)).await
}

pub(crate) async fn mark_recyclable(
    client: &Client,
    signer: &str,
    nonce: u64,
) -> Result<(), Error> {
    mark(client, signer, nonce.cast_signed(), "RECYCLABLE", None).await
}

/// Whether the stop-fence has refused it: either by its own words or, where the writer looks at the past,
/// because the past is over.
pub(crate) fn is_stopped(error: &Error) -> bool {
    error.code().is_some_and(|code| ["55000", "40001"].contains(&code.code()))
}

/// A transaction that has looked at the database already, so that it goes on seeing it as it was.
pub(crate) async fn looking_back(client: &mut Client) -> tokio_postgres::Transaction<'_> {
    let level = IsolationLevel::RepeatableRead;
    let transaction = client.build_transaction().isolation_level(level).start().await.unwrap();
    transaction.query("SELECT count(*) FROM submitter_nonce_state", &[]).await.unwrap();
    transaction
}
