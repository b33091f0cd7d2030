//! The part of the trait that is about lanes of a restored database.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use stile_domain::{B256, Bytes, Lane, NodeId, Nonce, Payload, Timestamp, TxId};

use crate::{Claim, NewAttempt, NewLaneEvent, Realign, Refusal, StoreError, Tx};

/// That a lane was brought into a history of the database in which commits may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoreMark {
    /// How often the lane had been marked by then, this time included. A restore takes the number
    /// back too, so it takes [`Self::at`] as well to tell one mark from another.
    pub number: u64,
    /// When, by the database's clock.
    pub at: Timestamp,
    /// The first nonce that was stepped over.
    pub from: Nonce,
    /// The first one above those.
    pub to: Nonce,
    /// The lane began while it was marked: what its account sent below [`Self::from`] may have been sent
    /// by the lost history too, and is not read.
    pub begun: bool,
    /// When a person said that what still waits was never sent.
    pub settled_at: Option<Timestamp>,
}

impl RestoreMark {
    /// A person's word, with the number of the mark that it is about.
    pub(crate) fn said(&self, data: &Value) -> Value {
        let mut data = if data.is_object() { data.clone() } else { serde_json::json!({}) };
        data["mark"] = self.number.into();
        data
    }

    /// Whether everything that has no nonce waits. Afterwards only what does the same as a
    /// transaction that was found and belongs to nobody.
    pub fn is_open(&self) -> bool {
        self.settled_at.is_none()
    }
}

/// A transaction on chain of which the database knew nothing any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostTx {
    /// Its nonce.
    pub nonce: Nonce,
    /// Its hash.
    pub hash: B256,
    /// The block that it was found in.
    pub block_number: u64,
    /// The signed bytes, and what they do; `None` for kinds that Stile does not sign.
    pub signed: Option<(Bytes, Payload)>,
    /// The transaction that it was sent for, if that is known.
    pub claimed_by: Option<TxId>,
}

/// A transaction that is bound to what was found on chain.
#[derive(Debug, Clone)]
pub struct Recovery {
    /// Which one: it must have no nonce yet.
    pub tx: TxId,
    /// The nonce of what was found.
    pub nonce: Nonce,
    /// What was found, as an attempt.
    pub attempt: NewAttempt,
    /// The evidence, for its history.
    pub data: Value,
}

/// What is remembered of a restore, per lane. See [`crate::Store`] for what holds of all calls.
///
/// While a lane is marked, [`crate::TxStore::bind_txs`] refuses every transaction on it that has
/// not been cleared by a person, with [`Refusal::Restored`].
#[async_trait]
pub trait RestoreStore: Send + Sync + std::fmt::Debug {
    /// The lanes that are marked, whoever holds them.
    async fn restored_lanes(&self) -> Result<Vec<(Lane, RestoreMark)>, StoreError>;

    /// Whether the primary waits for no standby when it commits: then a failover may lose commits.
    async fn lacks_synchronous_standby(&self) -> Result<bool, StoreError>;

    /// The history that the database is in, by a name that changes whenever commits may be missing that
    /// were there before: see [`stile_domain::Ahead`].
    async fn history_name(&self) -> Result<String, StoreError>;

    /// Nonces of a marked lane below the chain's count that the lost history may have used, and of
    /// which it is not known yet by which transaction; lowest first, at most `limit`.
    async fn unread_nonces(
        &self,
        lane: Lane,
        below: Nonce,
        limit: u32,
    ) -> Result<Vec<Nonce>, StoreError>;

    /// What was found on chain, lowest nonce first.
    async fn lost_txs(&self, lane: Lane) -> Result<Vec<LostTx>, StoreError>;

    /// Transactions of a lane that wait for a person's word, or for the chain's, in order of
    /// acceptance, at most `limit`.
    async fn awaiting_word(&self, lane: Lane, limit: u32) -> Result<Vec<Tx>, StoreError>;

    // --- the holder's writes, each of them fenced ----------------------------------------------

    /// The chain shows more of a lane than the database: it gives out nothing any more before it is
    /// realigned, like the lanes of a database that was put back. [`Refusal::CursorMoved`] if it is to be
    /// realigned for another reason already.
    async fn set_unaligned(
        &self,
        claim: &Claim,
        lease: Duration,
    ) -> Result<Result<(), Refusal>, StoreError>;

    /// Writes down what was found on chain. What is on record already stays as it is.
    async fn note_lost(
        &self,
        claim: &Claim,
        found: &[LostTx],
        lease: Duration,
    ) -> Result<Result<(), Refusal>, StoreError>;

    /// Moves a marked lane's cursor past nonces that the chain shows used, and takes note that they
    /// are to be read, with an entry in the lane's history.
    async fn step_over(
        &self,
        claim: &Claim,
        realign: Realign,
        event: &NewLaneEvent,
        lease: Duration,
    ) -> Result<Result<(), Refusal>, StoreError>;

    /// Makes what was found on chain the attempt of a transaction that has no nonce: ledger, attempt
    /// and history in one commit. `None`: the transaction has a nonce by now, or what was found
    /// belongs to another one, or its nonce does.
    async fn recover(
        &self,
        node: &NodeId,
        claim: &Claim,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Result<Option<Tx>, Refusal>, StoreError>;

    // --- a person's word, which needs no lease --------------------------------------------------
    //
    // It is about the mark that the person has seen, with all that was stepped over then. After another
    // one it says nothing: it is refused while the lane has another mark, has stepped over more, or is
    // not aligned, and what was said before counts no more.

    /// A transaction that has no nonce was never sent: it may get one. `None` if it has one, is done,
    /// or does not exist, or if the mark is another.
    async fn clear(
        &self,
        node: &NodeId,
        tx: TxId,
        mark: &RestoreMark,
        data: &Value,
    ) -> Result<Option<Tx>, StoreError>;

    /// A transaction that has no nonce was sent in the lost history: it is `FAILED`, with these
    /// words. `None` as in [`Self::clear`].
    async fn close_as_sent(
        &self,
        node: &NodeId,
        tx: TxId,
        mark: &RestoreMark,
        words: &str,
        data: &Value,
    ) -> Result<Option<Tx>, StoreError>;

    /// What waits on a lane was never sent: it may get nonces, and the mark is settled. What does the
    /// same as a transaction that was found and belongs to nobody is not cleared by this: it waits for
    /// a word of its own. Answers with how many were cleared; `None` if the mark is another, or settled
    /// already.
    async fn settle_restore(
        &self,
        node: &NodeId,
        lane: Lane,
        mark: &RestoreMark,
        data: &Value,
    ) -> Result<Option<u64>, StoreError>;
}
