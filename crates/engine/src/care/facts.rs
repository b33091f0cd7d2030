//! Everything there is to know about a lane at this moment.

use serde::Serialize;
use stile_chain::EndpointReport;
use stile_domain::{
    AttemptKind, B256, ChainId, Elsewhere, Fees, HoldId, HoldStatus, Nonce, SubState, TxId, TxState,
};

/// A lane, its chain, and what stands between them.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LaneFacts {
    /// The chain.
    pub chain_id: ChainId,
    /// The same as a text, which is exact in JavaScript too.
    pub chain_id_text: String,
    /// The account, with EIP-55 checksum.
    pub signer: String,
    /// Who holds the lane, or held it last.
    pub holder: HolderFacts,
    /// Why it is paused.
    pub paused: Option<String>,
    /// Whether a person paused it: then only a person resumes it.
    pub paused_by_person: bool,
    /// Why it is not Stile's.
    pub elsewhere: Option<Elsewhere>,
    /// Whether it has been held against its chain since the database failed over or was restored.
    pub aligned: bool,
    /// Why it has not been held against its chain since it came to its holder, if the holder is the
    /// node that was asked and has tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncompared: Option<String>,
    /// What waits for a person's word because the database was restored, oldest first, at most 100.
    pub restored: Option<RestoredFacts>,
    /// Failovers are said to be synchronous, and the primary waits for no standby.
    pub lacks_synchronous_standby: bool,
    /// The next fresh nonce.
    pub next_nonce: Option<Nonce>,
    /// The nonce that the chain waits for; `None` if no endpoint says.
    pub chain_nonce: Option<Nonce>,
    /// Transactions with a nonce that are not in a block.
    pub in_flight: u64,
    /// How many of them there may be.
    pub max_in_flight: u64,
    /// Transactions that wait for a nonce.
    pub queued: u64,
    /// Transactions that wait for an estimate of their gas, the oldest first; a few of them.
    pub unestimated: Vec<UnestimatedFacts>,
    /// Whether Stile has the key.
    pub can_sign: bool,
    /// Why the signer last gave no signature.
    pub signer_trouble: Option<String>,
    /// What the account has, in wei.
    pub balance: Option<String>,
    /// What the chain asks for a unit of gas, in wei: the base fee, or the usual price.
    pub market_fee_per_gas: Option<String>,
    /// Why no endpoint says that, if they answer otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unquoted: Option<String>,
    /// The most that an attempt may offer on this chain, in wei.
    pub fee_limit: Option<String>,
    /// What is at the nonce that the chain waits for.
    pub head: Option<HeadFacts>,
    /// What is on record in blocks that the chain does not have, if this node holds the lane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gone: Option<GoneFacts>,
    /// What each endpoint says, and whether it knows the newest attempt at the nonce that the chain
    /// waits for.
    pub endpoints: Vec<EndpointReport>,
    /// The chain has gone past the nonce of a transaction of which this node has no receipt.
    pub receipt_missing: bool,
    /// How many endpoints have to agree, and what they do not agree on.
    pub agreement: Option<AgreementFacts>,
    /// How the chain's blocks come.
    pub pace: Option<PaceFacts>,
}

/// How the blocks of a chain come, as this node sees it.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PaceFacts {
    /// How long ago the newest block came.
    pub silent_seconds: Option<f64>,
    /// How long a block usually takes.
    pub usual_seconds: Option<f64>,
    /// For how long the chain has made no block, if it stands still.
    pub standstill_seconds: Option<f64>,
    /// Whether nobody expects that to end by itself.
    #[serde(skip)]
    pub is_long: bool,
    /// Whether it makes blocks only when it has transactions.
    pub is_on_demand: bool,
    /// Transactions of the lane that are in a block and not done.
    pub unconfirmed: u64,
    /// Those of them that wait for a number of blocks on top of their own.
    pub unburied: u64,
    /// Why the chain is not followed, if that has been so for a while.
    pub unfollowed: Option<String>,
    /// Transactions of the lane that are in a block and have no receipt that can be read.
    pub without_receipt: u64,
    /// Names of blocks that the chain does not have and that are asked for.
    pub lacking: Vec<LackingFacts>,
}

/// A name that the chain gives to none of its blocks.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LackingFacts {
    /// `safe` or `finalized`.
    pub tag: &'static str,
    /// How many transactions of the lane wait for it.
    pub waiting: u64,
    /// Whether it is the configured finality.
    pub is_default: bool,
}

/// Transactions on record in blocks that the chain does not have.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GoneFacts {
    /// How many.
    pub transactions: usize,
    /// The highest of those blocks.
    pub highest_block: u64,
    /// The newest block of the chain, as far as is shown.
    pub chain_head: u64,
}

/// What the endpoints of the chain agree on, as this node sees it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgreementFacts {
    /// How many endpoints are configured.
    pub configured: usize,
    /// How many of them have to agree.
    pub required: usize,
    /// Why nothing is concluded: `contradicted` or `too-few-voters`.
    pub withheld: Option<&'static str>,
    /// For how long.
    pub withheld_seconds: Option<f64>,
    /// In words.
    pub words: Option<String>,
}

/// A transaction that waits for an estimate of its gas.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnestimatedFacts {
    /// Its name.
    pub tx_id: TxId,
    /// What the endpoints said.
    pub error: Option<String>,
}

/// What is known of a restore.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoredFacts {
    /// Whether everything that has no nonce waits, or only what does the same as what was found.
    pub open: bool,
    /// How many wait.
    pub waiting: usize,
    /// The oldest of them, at most 100.
    pub tx_ids: Vec<TxId>,
    /// How many nonces have not been read from the chain yet, at most 100.
    pub unread: usize,
    /// The lane began while it was marked: what its account had sent before is not read.
    pub begun: bool,
    /// How many transactions were found on chain that belong to nobody.
    pub unclaimed: usize,
    /// An endpoint that has transactions in its pool that the database does not know.
    pub pooled_at: Option<String>,
}

/// Who holds a lane.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HolderFacts {
    /// Its name.
    pub node_id: String,
    /// Where it is reached.
    pub url: Option<String>,
    /// Whether it is the node that was asked.
    pub is_this_node: bool,
    /// The lane's token.
    pub fencing_token: u64,
    /// How long its lease still runs; 0 once it has run out.
    pub lease_seconds_left: f64,
}

/// What is at the nonce that the chain waits for.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeadFacts {
    /// The nonce.
    pub nonce: Nonce,
    /// The caller who has it.
    pub hold: Option<HoldFacts>,
    /// The transaction that has it.
    pub tx: Option<TxFacts>,
}

/// A nonce in the hands of a caller.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HoldFacts {
    /// The hold.
    pub hold_id: HoldId,
    /// How it stands.
    pub status: HoldStatus,
    /// What its caller says it sent.
    pub tx_hash: Option<B256>,
}

/// The transaction that the lane waits for.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TxFacts {
    /// Which one.
    pub tx_id: TxId,
    /// Where it stands.
    pub state: TxState,
    /// What there is to say about it.
    pub sub_state: Option<SubState>,
    /// Seconds since it was handed over.
    pub age_seconds: f64,
    /// How often it was sent.
    pub sends: u32,
    /// What is wrong with it.
    pub error: Option<String>,
    /// The most that its caller allows an attempt to offer, in wei.
    pub fee_limit: Option<String>,
    /// How many attempts it has.
    pub attempts: usize,
    /// The newest of them.
    pub newest: Option<AttemptFacts>,
}

/// The newest attempt of a transaction.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptFacts {
    /// What it is for.
    pub kind: AttemptKind,
    /// Its hash.
    pub tx_hash: B256,
    /// What it offers.
    pub fees: Fees,
    /// What it may cost at most, in wei.
    pub cost: Option<String>,
    /// What each endpoint said to it last.
    pub said: Option<serde_json::Value>,
}
