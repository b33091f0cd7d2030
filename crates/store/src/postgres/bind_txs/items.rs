//! A batch of transactions as the statements take it.

use std::collections::HashMap;

use stile_domain::{EventKind, HoldId, Lane, Nonce, Standing, Timestamp, TxId};
use tokio_postgres::types::Json;
use uuid::Uuid;

use crate::postgres::rows::LaneColumns;
use crate::tx_columns::bound_data;
use crate::{BindTx, Bindable, Claim, NewTx, StoreError, Tx, TxBinding};

/// One transaction of a batch, with what it gets.
pub(super) struct Item<'b> {
    pub(super) claim: Claim,
    pub(super) nonce: Nonce,
    /// The hold that gave the nonce back; `None` for a fresh one.
    pub(super) previous: Option<HoldId>,
    pub(super) tx: &'b BindTx,
    pub(super) resubmit_at: Option<Timestamp>,
}

impl<'b> Item<'b> {
    pub(super) fn of(bindings: &[&'b TxBinding], now: Timestamp) -> Result<Vec<Self>, StoreError> {
        let mut items = Vec::new();
        for binding in bindings {
            let resubmit_at = binding.resubmit_at(now)?;
            let previous = binding.plan.reissued.iter().map(|released| Some(released.hold));
            let previous = previous.chain(std::iter::repeat(None));
            items.extend(binding.planned().zip(previous).map(|((nonce, tx), previous)| Item {
                claim: binding.claim,
                nonce,
                previous,
                tx,
                resubmit_at,
            }));
        }
        Ok(items)
    }

    pub(super) fn lane(&self) -> Lane {
        self.claim.lane
    }

    pub(super) fn new_tx(&self) -> Option<&'b NewTx> {
        match &self.tx.what {
            Bindable::New(new) => Some(new),
            Bindable::Waiting(_) => None,
        }
    }

    /// The gas a new transaction may use: its attempt says, if it was not known before.
    pub(super) fn gas_limit(&self) -> u64 {
        let known = self.new_tx().and_then(|new| new.gas_limit);
        known.unwrap_or(self.tx.attempt.gas_limit)
    }
}

/// The columns that every statement about bound nonces takes, as `unnest` takes them.
pub(super) struct BoundColumns<'b> {
    pub(super) ids: Vec<Uuid>,
    pub(super) lanes: LaneColumns,
    pub(super) nonces: Vec<i64>,
    pub(super) hashes: Vec<&'b [u8]>,
    pub(super) tokens: Vec<i64>,
    pub(super) gas_limits: Vec<i64>,
    pub(super) resubmit_at: Vec<Option<Timestamp>>,
    pub(super) reissued: Vec<bool>,
}

impl<'b> BoundColumns<'b> {
    pub(super) fn of<'i>(items: impl Iterator<Item = &'i Item<'b>> + Clone) -> Self
    where
        'b: 'i,
    {
        Self {
            ids: items.clone().map(|item| item.tx.id().0).collect(),
            lanes: LaneColumns::of(items.clone().map(Item::lane)),
            nonces: items.clone().map(|item| item.nonce.cast_signed()).collect(),
            hashes: items.clone().map(|item| item.tx.attempt.hash.as_slice()).collect(),
            tokens: items.clone().map(|item| item.claim.token.0).collect(),
            gas_limits: items.clone().map(|item| item.gas_limit().cast_signed()).collect(),
            resubmit_at: items.clone().map(|item| item.resubmit_at).collect(),
            reissued: items.map(|item| item.previous.is_some()).collect(),
        }
    }
}

/// The columns of the entries that a binding writes.
pub(super) struct EventColumns<'b> {
    pub(super) ids: Vec<Uuid>,
    pub(super) seqs: Vec<i32>,
    pub(super) tenants: Vec<&'b str>,
    pub(super) lanes: LaneColumns,
    pub(super) kinds: Vec<&'static str>,
    pub(super) states: Vec<&'static str>,
    pub(super) sub_states: Vec<Option<&'static str>>,
    pub(super) tokens: Vec<Option<i64>>,
    pub(super) data: Vec<Json<serde_json::Value>>,
}

impl<'b> EventColumns<'b> {
    pub(super) fn of(items: &[Item<'_>], bound: &'b HashMap<TxId, Tx>) -> Self {
        let entries: Vec<_> = items
            .iter()
            .filter_map(|item| Some((item, bound.get(&item.tx.id())?)))
            .flat_map(|(item, tx)| {
                // A new one was accepted first, which needs no lease and so bears no token.
                let accepted = item.new_tx().map(|_| {
                    let data = serde_json::json!({});
                    (tx, 1, EventKind::Accepted, Standing::CREATED, None, data)
                });
                let data = bound_data(item.nonce, &item.tx.attempt);
                let token = Some(item.claim.token.0);
                let bound = (tx, tx.events, EventKind::Bound, tx.standing, token, data);
                accepted.into_iter().chain([bound])
            })
            .collect();
        Self {
            ids: entries.iter().map(|(tx, ..)| tx.id.0).collect(),
            seqs: entries.iter().map(|(_, seq, ..)| seq.cast_signed()).collect(),
            tenants: entries.iter().map(|(tx, ..)| tx.tenant.as_str()).collect(),
            lanes: LaneColumns::of(entries.iter().map(|(tx, ..)| tx.lane)),
            kinds: entries.iter().map(|(_, _, kind, ..)| kind.name()).collect(),
            states: entries.iter().map(|(_, _, _, standing, ..)| standing.state.name()).collect(),
            sub_states: entries
                .iter()
                .map(|(_, _, _, standing, ..)| standing.sub_state.map(|it| it.name()))
                .collect(),
            tokens: entries.iter().map(|(.., token, _)| *token).collect(),
            data: entries.into_iter().map(|(.., data)| Json(data)).collect(),
        }
    }
}
