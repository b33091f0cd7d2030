//! A transaction as callers see it.

use serde::Serialize;
use stile_domain::{Outcome, Payload, Receipt, Rival, Timestamp, Wait};
use stile_engine::Transactions;
use stile_store::{StoreError, Tx, Wish};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::schema;
use crate::tx::finality::FinalityText;

/// A transaction. Amounts of wei and gas are decimal texts.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Tx)]
pub(crate) struct TxView {
    /// Its name.
    tx_id: Uuid,
    /// The chain.
    #[schema(value_type = schema::ChainId)]
    chain_id: u64,
    /// The same as a text.
    #[schema(value_type = schema::ChainIdText)]
    chain_id_text: String,
    /// The account that sends it, with EIP-55 checksum.
    #[schema(value_type = schema::Address)]
    signer: String,
    /// The caller's own name for it.
    #[schema(value_type = Option<schema::RequestId>)]
    request_id: Option<String>,
    /// What it is to do, as it was handed over.
    payload: PayloadView,
    /// Its nonce, once bound; it never changes.
    nonce: Option<u64>,
    /// Where it stands.
    #[schema(value_type = schema::TxStateName)]
    state: &'static str,
    /// What there is to say about the state.
    #[schema(value_type = Option<schema::SubStateName>)]
    sub_state: Option<&'static str>,
    /// How its execution ended, once it is in a block; `unknown` if no endpoint says so.
    #[schema(value_type = Option<schema::OutcomeName>)]
    outcome: Option<&'static str>,
    /// The hash of the attempt that was mined, else of the newest attempt.
    #[schema(value_type = Option<schema::Hash>)]
    tx_hash: Option<String>,
    /// Where it was mined, while that block is canonical.
    receipt: Option<ReceiptView>,
    /// The transaction that took its nonce, while that one's block is canonical.
    rival: Option<RivalView>,
    /// The transaction in whose place it was made.
    replaces: Option<Uuid>,
    /// The transaction that was made in its place.
    replaced_by: Option<Uuid>,
    /// What its caller wants of it that has not been seen to yet.
    #[schema(value_type = Option<schema::WishName>)]
    wish: Option<&'static str>,
    /// What it waits for; null once it is done, and where there is nothing to say.
    waiting_for: Option<WaitView>,
    /// Blocks on top of its own.
    confirmations: u64,
    /// When it counts as done.
    finality: FinalityText,
    /// The gas it may use, once known.
    gas_limit: Option<String>,
    /// What is wrong with it, in words.
    error: Option<String>,
    /// When it was taken. All times are the database's.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When it last changed.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// When a chain node first had it.
    #[schema(value_type = Option<String>, format = DateTime)]
    first_submit_at: Option<Timestamp>,
    /// When it was last sent.
    #[schema(value_type = Option<String>, format = DateTime)]
    last_submit_at: Option<Timestamp>,
    /// When it is to be sent again, if it is not mined by then.
    #[schema(value_type = Option<String>, format = DateTime)]
    next_resubmit_at: Option<Timestamp>,
    /// When its receipt was last asked for by itself.
    #[schema(value_type = Option<String>, format = DateTime)]
    last_receipt_check_at: Option<Timestamp>,
    /// When it became as final as was asked.
    #[schema(value_type = Option<String>, format = DateTime)]
    confirmed_at: Option<Timestamp>,
}

/// What there is to say of a transaction that was mined and ended in a way that nobody tells.
fn untold(outcome: Option<Outcome>) -> Option<String> {
    (outcome == Some(Outcome::Unknown)).then(|| UNTOLD.to_owned())
}

const UNTOLD: &str = "it is in its block, and no endpoint says whether its execution succeeded: their receipts have no status";

impl TxView {
    /// Shows it, with the confirmations that this node knows of and what it waits for as far as this
    /// node has that in memory.
    pub(crate) fn new(transactions: &Transactions, tx: Tx) -> Self {
        let waiting_for = transactions.wait_known(&tx);
        Self::waiting(transactions, tx, waiting_for)
    }

    /// Shows several, in the same order, with what each waits for.
    pub(crate) async fn all(
        transactions: &Transactions,
        txs: Vec<Tx>,
    ) -> Result<Vec<Self>, StoreError> {
        let waits = transactions.waits(&txs).await?;
        let views = txs.into_iter().zip(waits);
        Ok(views.map(|(tx, wait)| Self::waiting(transactions, tx, wait)).collect())
    }

    /// Shows one, with what it waits for.
    pub(crate) async fn one(transactions: &Transactions, tx: Tx) -> Result<Self, StoreError> {
        let wait = transactions.waits(std::slice::from_ref(&tx)).await?.pop().flatten();
        Ok(Self::waiting(transactions, tx, wait))
    }

    fn waiting(transactions: &Transactions, tx: Tx, waiting_for: Option<Wait>) -> Self {
        Self {
            waiting_for: waiting_for.map(WaitView::from),
            confirmations: transactions.confirmations_of(&tx),
            tx_id: tx.id.0,
            chain_id: tx.lane.chain.get(),
            chain_id_text: tx.lane.chain.to_string(),
            signer: tx.lane.signer.to_string(),
            request_id: tx.request_id,
            payload: PayloadView::from(&tx.payload),
            nonce: tx.nonce,
            state: tx.standing.state.name(),
            sub_state: tx.standing.sub_state.map(|sub_state| sub_state.name()),
            outcome: tx.standing.outcome.map(|outcome| outcome.name()),
            tx_hash: tx.tx_hash.map(|hash| hash.to_string()),
            receipt: tx.receipt.as_ref().map(|receipt| ReceiptView::of(receipt, &tx.payload)),
            rival: tx.rival.as_ref().map(RivalView::from),
            replaces: tx.replaces.map(|id| id.0),
            replaced_by: tx.replaced_by.map(|id| id.0),
            wish: tx.wish.as_ref().map(wish),
            finality: FinalityText(tx.finality),
            gas_limit: tx.gas_limit.map(|gas| gas.to_string()),
            error: tx.error.or_else(|| untold(tx.standing.outcome)),
            created_at: tx.created_at,
            updated_at: tx.updated_at,
            first_submit_at: tx.first_submit_at,
            last_submit_at: tx.last_submit_at,
            next_resubmit_at: tx.next_resubmit_at,
            last_receipt_check_at: tx.last_receipt_check_at,
            confirmed_at: tx.confirmed_at,
        }
    }
}

fn wish(wish: &Wish) -> &'static str {
    match wish {
        Wish::Cancel => "cancel",
        Wish::SpeedUp(_) => "speed-up",
    }
}

/// What a transaction waits for.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WaitingFor)]
struct WaitView {
    /// Its stable name.
    #[schema(value_type = schema::WaitCodeName)]
    code: &'static str,
    /// In words, for people.
    words: String,
    /// The transaction of the same signer that comes first, where it is known.
    tx_id: Option<Uuid>,
    /// Its nonce.
    nonce: Option<u64>,
}

impl From<Wait> for WaitView {
    fn from(wait: Wait) -> Self {
        Self {
            code: wait.code.name(),
            words: wait.words,
            tx_id: wait.behind.map(|behind| behind.id.0),
            nonce: wait.behind.map(|behind| behind.nonce),
        }
    }
}

/// What a transaction is to do.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Payload)]
struct PayloadView {
    /// Whom it goes to; null deploys a contract.
    #[schema(value_type = Option<schema::Address>)]
    to: Option<String>,
    /// Wei it carries.
    #[schema(example = "1000000000000000")]
    value: String,
    /// Call data, or a contract's code.
    #[schema(value_type = schema::Bytes)]
    data: String,
    /// The gas limit that the caller gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    gas_limit: Option<String>,
    /// The most wei paid for a unit of gas, if the caller said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_fee_per_gas: Option<String>,
    /// The most wei paid on top of the base fee, if the caller said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_priority_fee_per_gas: Option<String>,
    /// The price of a transaction of the old kind, if the caller said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    gas_price: Option<String>,
    /// The most wei that any attempt may offer for a unit of gas, if the caller said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    fee_limit: Option<String>,
    /// Whether it is made anew if somebody else's transaction takes its nonce; left out if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    resend_if_replaced: bool,
}

impl From<&Payload> for PayloadView {
    fn from(payload: &Payload) -> Self {
        let text = |wei: Option<u128>| wei.map(|wei| wei.to_string());
        Self {
            to: payload.to.map(|to| to.to_string()),
            value: payload.value.to_string(),
            data: payload.data.to_string(),
            gas_limit: payload.gas_limit.map(|gas| gas.to_string()),
            max_fee_per_gas: text(payload.max_fee_per_gas),
            max_priority_fee_per_gas: text(payload.max_priority_fee_per_gas),
            gas_price: text(payload.gas_price),
            fee_limit: text(payload.fee_limit),
            resend_if_replaced: payload.resend_if_replaced,
        }
    }
}

/// Where a transaction was mined, and how its execution ended.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Receipt)]
struct ReceiptView {
    /// The attempt that was mined.
    #[schema(value_type = schema::Hash)]
    tx_hash: String,
    /// The block's height.
    block_number: u64,
    /// The block.
    #[schema(value_type = schema::Hash)]
    block_hash: String,
    /// Its place in the block.
    transaction_index: u64,
    /// 1 if its execution succeeded, 0 if it was reverted, null if no endpoint says which.
    #[schema(minimum = 0, maximum = 1)]
    status: Option<u8>,
    /// The gas it used.
    gas_used: String,
    /// Wei paid for a unit of gas.
    effective_gas_price: String,
    /// The contract it deployed.
    #[schema(value_type = Option<schema::Address>)]
    contract_address: Option<String>,
}

impl ReceiptView {
    /// Some nodes name the contract that was called: only what is sent to nobody makes one.
    fn of(receipt: &Receipt, payload: &Payload) -> Self {
        let contract = receipt.contract().filter(|_| payload.to.is_none());
        Self {
            tx_hash: receipt.tx_hash.to_string(),
            block_number: receipt.block_number,
            block_hash: receipt.block_hash.to_string(),
            transaction_index: receipt.transaction_index,
            status: receipt.status.map(u8::from),
            gas_used: receipt.gas_used.to_string(),
            effective_gas_price: receipt.effective_gas_price.to_string(),
            contract_address: contract.map(|address| address.to_string()),
        }
    }
}

/// Another transaction on the chain at the same nonce.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Rival)]
struct RivalView {
    /// Whose it is.
    #[schema(value_type = schema::SuccessorName)]
    by: &'static str,
    /// Which one; null if it was mined too long ago to be found.
    #[schema(value_type = Option<schema::Hash>)]
    tx_hash: Option<String>,
    /// The height of its block.
    block_number: u64,
    /// Its block.
    #[schema(value_type = schema::Hash)]
    block_hash: String,
}

impl From<&Rival> for RivalView {
    fn from(rival: &Rival) -> Self {
        Self {
            by: rival.by.name(),
            tx_hash: rival.tx_hash.map(|hash| hash.to_string()),
            block_number: rival.block_number,
            block_hash: rival.block_hash.to_string(),
        }
    }
}
