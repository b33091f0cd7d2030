//! Whose the lanes are, while they are moved to Stile one by one, and nonces that come with them.

use async_trait::async_trait;
use serde_json::Value;
use stile_domain::v1::export::LedgerNonce;
use stile_domain::v1::import::ImportedNonce;
use stile_domain::{ChainId, Elsewhere, Lane, LaneOwner, NodeId, Nonce, Percent, Rollout};

use crate::StoreError;

/// What became of a change of owner, for one lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerChange {
    /// Done.
    Done,
    /// It was somebody else's than was thought, by the list; nothing was written.
    Was(Option<LaneOwner>),
    /// It is not on the list, and Stile has given out nonces of it: it is not V1's just because V1
    /// knows it too. Nothing was written.
    Started,
}

/// Nonces to be taken over into a lane that is not Stile's yet.
#[derive(Debug, Clone)]
pub struct ImportPart<'i> {
    /// The lane. Its row must be there.
    pub lane: Lane,
    /// The nonces. One that is there already is changed only if that leads forward: what is
    /// `CONSUMED`, a transaction's, or in a caller's hands stays as it is.
    pub nonces: &'i [ImportedNonce],
    /// With the last part: where the lane goes on.
    pub end: Option<ImportEnd>,
}

/// Where a lane goes on after an import.
#[derive(Debug, Clone)]
pub struct ImportEnd {
    /// The next fresh nonce; the cursor never moves back to it.
    pub cursor: Nonce,
    /// The chain's count.
    pub chain_nonce: Nonce,
    /// For the lane's history.
    pub data: Value,
}

/// What became of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Imported {
    /// So many rows were written; those that stood as they should are not counted.
    Written(u64),
    /// The lane is Stile's: its nonces are being given out, so none are taken over.
    Owned,
    /// There is no such lane.
    NotFound,
}

/// Which lanes are Stile's. Binding asks: what this says is written into each lane's row, which is
/// what the fence looks at, under a raised token, so that plans in memory die.
#[async_trait]
pub trait RolloutStore: Send + Sync + std::fmt::Debug {
    /// The number that rises with every change.
    async fn rollout_version(&self) -> Result<u64, StoreError>;

    /// The whole of it.
    async fn rollout(&self) -> Result<Rollout, StoreError>;

    /// Sets the share of a chain's lanes that are not on the list, or removes it: then all are
    /// Stile's. Answers with the lanes that changed hands.
    async fn set_share(
        &self,
        node: &NodeId,
        chain: ChainId,
        percent: Option<Percent>,
    ) -> Result<Vec<Lane>, StoreError>;

    /// Puts lanes on the list, each only if it stands there as one of `from` says (`None`: not on it).
    async fn set_owner(
        &self,
        node: &NodeId,
        lanes: &[Lane],
        from: &[Option<LaneOwner>],
        to: LaneOwner,
    ) -> Result<Vec<OwnerChange>, StoreError>;

    /// Takes over nonces. Needs no lease: the lane's row is locked, nobody binds on a lane that is not
    /// Stile's, whoever holds it, and the last part raises its token. The same part twice is the same as
    /// once.
    async fn import_lane(
        &self,
        node: &NodeId,
        part: ImportPart<'_>,
    ) -> Result<Imported, StoreError>;

    /// A lane's ledger from a nonce on, lowest first, at most `limit` rows.
    async fn ledger(
        &self,
        lane: Lane,
        from: Nonce,
        limit: u32,
    ) -> Result<Vec<LedgerNonce>, StoreError>;
}

/// What the history says of a lane that changed hands.
pub(crate) fn rolled_out_data(elsewhere: Option<Elsewhere>) -> Value {
    serde_json::json!({ "elsewhere": elsewhere })
}
