//! Which blocks are canonical.

use stile_domain::{ChainId, Header};
use tokio_postgres::types::Type;

use super::session::{Sessions, Statement};
use super::tx_rows;
use crate::{HeaderUpdate, StoreError};

pub(super) async fn headers(
    sessions: &Sessions,
    chain: ChainId,
) -> Result<Vec<Header>, StoreError> {
    let chain = chain.get().cast_signed();
    let found = sessions.read(include_str!("sql/headers.sql"), &[(&chain, Type::INT8)]).await?;
    found.iter().map(tx_rows::header).collect()
}

pub(super) async fn replaced(
    sessions: &Sessions,
    chain: ChainId,
) -> Result<Vec<Header>, StoreError> {
    let chain = chain.get().cast_signed();
    let sql = include_str!("sql/replaced_headers.sql");
    let found = sessions.read(sql, &[(&chain, Type::INT8)]).await?;
    found.iter().map(tx_rows::header).collect()
}

/// The columns of a list of headers, as `unnest` takes them.
struct HeaderColumns<'h> {
    heights: Vec<i64>,
    hashes: Vec<&'h [u8]>,
    parents: Vec<&'h [u8]>,
}

impl<'h> HeaderColumns<'h> {
    fn of(headers: &'h [Header]) -> Self {
        Self {
            heights: headers.iter().map(|header| header.height.cast_signed()).collect(),
            hashes: headers.iter().map(|header| header.hash.as_slice()).collect(),
            parents: headers.iter().map(|header| header.parent.as_slice()).collect(),
        }
    }
}

pub(super) async fn save(sessions: &Sessions, update: &HeaderUpdate) -> Result<(), StoreError> {
    let chain = update.chain.get().cast_signed();
    let replaced = HeaderColumns::of(&update.replaced);
    let canonical = HeaderColumns::of(&update.canonical);
    let replace: Statement<'_> = (
        include_str!("sql/replace_headers.sql"),
        &[&chain, &replaced.heights, &replaced.hashes, &replaced.parents],
    );
    let save: Statement<'_> = (
        include_str!("sql/save_headers.sql"),
        &[&chain, &canonical.heights, &canonical.hashes, &canonical.parents],
    );
    let keep_from = i64::try_from(update.keep_from).unwrap_or(i64::MAX);
    let forget: Statement<'_> = (include_str!("sql/forget_headers.sql"), &[&chain, &keep_from]);
    sessions
        .within(StoreError::CommitUnknown, async {
            let (transaction, _) =
                sessions.begin(include_str!("sql/lock_headers.sql"), &[&chain]).await?;
            transaction.execute_all_and_commit(&[replace, save, forget]).await
        })
        .await
}
