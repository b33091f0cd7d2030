//! Transactions by their callers' names for them.

use std::collections::HashMap;

use stile_domain::Lane;

use super::gather::Together;
use super::rows::LaneColumns;
use super::session::Sessions;
use super::tx_rows;
use crate::{StoreError, Tx};

/// Asking for them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ByRequest;

/// A caller's name for a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Name {
    pub(super) tenant: String,
    pub(super) lane: Lane,
    pub(super) request_id: String,
}

impl Together for ByRequest {
    type Part = Name;
    type Answer = Option<Tx>;

    fn alone(_: &Name) -> Option<Lane> {
        None
    }

    fn rows(_: &Name) -> usize {
        1
    }

    async fn run(
        &self,
        sessions: &Sessions,
        names: &[Name],
    ) -> Result<Vec<Option<Tx>>, StoreError> {
        let tenants: Vec<&str> = names.iter().map(|name| name.tenant.as_str()).collect();
        let lanes = LaneColumns::of(names.iter().map(|name| name.lane));
        let request_ids: Vec<&str> = names.iter().map(|name| name.request_id.as_str()).collect();
        let rows = sessions
            .read_often(
                include_str!("sql/txs_by_request.sql"),
                &[&tenants, &lanes.chains, &lanes.signers, &request_ids],
            )
            .await?;
        let mut found = HashMap::with_capacity(rows.len());
        for row in &rows {
            let place: i64 = row.try_get("place")?;
            found.insert(place.unsigned_abs() as usize - 1, tx_rows::tx(row)?);
        }
        Ok((0..names.len()).map(|place| found.remove(&place)).collect())
    }
}
