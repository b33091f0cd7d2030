//! Managed transactions: what goes into a store and what comes out.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stile_domain::{
    AttemptKind, B256, Bytes, ChainId, Elsewhere, EventKind, Fees, Finality, Header, Hold, Lane,
    NodeId, Nonce, Outcome, Payload, Plan, Receipt, Rival, Standing, SubState, Timestamp, TxId,
    TxState,
};
use uuid::Uuid;

use crate::{Claim, FencingToken, LaneEvent, StoreError};

/// A transaction about to be accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTx {
    /// Its name, made before the commit so that the commit's fate can be read back by it.
    pub id: TxId,
    /// Whose it is.
    pub tenant: String,
    /// The lane it goes on.
    pub lane: Lane,
    /// The caller's own name for it, if it gave one.
    pub request_id: Option<String>,
    /// What it is to do.
    pub payload: Payload,
    /// Hash of the canonical form of the request.
    pub request_hash: B256,
    /// The evidence it asks for.
    pub finality: Finality,
    /// The gas it may use, if that is known already.
    pub gas_limit: Option<u64>,
    /// The transaction in whose place it is made, which lost its nonce to somebody else.
    pub replaces: Option<TxId>,
}

/// The answer to an acceptance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acceptance {
    /// Written now.
    New(Tx),
    /// The request id was used before, by this one. Whether it is the same request is for the
    /// caller to compare.
    Existing(Tx),
    /// The lane is not Stile's, as the commit itself found: nothing was written.
    Elsewhere(Elsewhere),
}

/// A transaction, with everything but its attempts and its history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tx {
    /// Its name.
    pub id: TxId,
    /// Whose it is.
    pub tenant: String,
    /// The lane it goes on.
    pub lane: Lane,
    /// The caller's own name for it.
    pub request_id: Option<String>,
    /// What it is to do.
    pub payload: Payload,
    /// Hash of the canonical form of the request.
    pub request_hash: B256,
    /// The evidence it asks for.
    pub finality: Finality,
    /// The gas it may use, once known.
    pub gas_limit: Option<u64>,
    /// Its place in the order of acceptance; rises over all lanes.
    pub position: u64,
    /// Its nonce, once bound.
    pub nonce: Option<Nonce>,
    /// Where it stands.
    pub standing: Standing,
    /// The hash of the attempt that was mined, else of the newest attempt.
    pub tx_hash: Option<B256>,
    /// Where it was mined, while that block is canonical as far as is known.
    pub receipt: Option<Receipt>,
    /// The block up to which its confirmations have been told in an event.
    pub told: Option<(u64, B256)>,
    /// The transaction that took its nonce, while that one's block is canonical as far as is known.
    pub rival: Option<Rival>,
    /// What its caller wants of it that its holder has not seen to yet.
    pub wish: Option<Wish>,
    /// The transaction in whose place it was made.
    pub replaces: Option<TxId>,
    /// The transaction that was made in its place.
    pub replaced_by: Option<TxId>,
    /// What is wrong with it, in words.
    pub error: Option<String>,
    /// How many entries its history has.
    pub events: u32,
    /// How often it was sent.
    pub sends: u32,
    /// When it was accepted. All times are the database's.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When a chain node first had it.
    pub first_submit_at: Option<Timestamp>,
    /// When it was last sent.
    pub last_submit_at: Option<Timestamp>,
    /// When it is to be sent again.
    pub next_resubmit_at: Option<Timestamp>,
    /// When its receipt was last asked for by itself.
    pub last_receipt_check_at: Option<Timestamp>,
    /// When it became as final as was asked.
    pub confirmed_at: Option<Timestamp>,
}

/// What the caller of a transaction wants of it after it was bound. Any node takes it; the lane's
/// holder sees to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Wish {
    /// That it is not done after all, if that can be had still.
    Cancel,
    /// That it is done sooner: at these fees, or at what the policy says.
    SpeedUp(Option<Fees>),
}

/// What becomes of a wish when its transaction changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WishEnd {
    /// It stays.
    #[default]
    Keep,
    /// It has been seen to, if it is this one still: another may have been left in its place.
    Granted(Wish),
    /// Nothing can be wished for any more.
    Over,
}

impl WishEnd {
    /// As the stores compare it: nothing for a wish that stays, an empty text for any, and else the
    /// text that is on record.
    pub(crate) fn text(self) -> Result<Option<String>, StoreError> {
        match self {
            Self::Keep => Ok(None),
            Self::Over => Ok(Some(String::new())),
            Self::Granted(wish) => serde_json::to_string(&wish)
                .map(Some)
                .map_err(|error| StoreError::Internal(error.to_string())),
        }
    }
}

/// The answer to withdrawing a transaction that has no nonce yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Withdrawal {
    /// It is withdrawn, now or before.
    Done(Tx),
    /// It has a nonce, or is done: as it stands.
    TooLate(Tx),
    /// It has no nonce, and may have been sent before the database was restored: it waits for a
    /// person's word.
    AwaitsWord(Tx),
    /// There is none of that name.
    NotFound,
}

/// A signed attempt about to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAttempt {
    /// What it is for.
    pub kind: AttemptKind,
    /// Its hash.
    pub hash: B256,
    /// The bytes that are sent, and sent again.
    pub raw: Bytes,
    /// What it offers to pay.
    pub fees: Fees,
    /// The gas it may use.
    pub gas_limit: u64,
}

/// One signed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// 1 for the first.
    pub number: u32,
    /// What it is for.
    pub kind: AttemptKind,
    /// Its hash.
    pub hash: B256,
    /// The bytes.
    pub raw: Bytes,
    /// What it offers to pay.
    pub fees: Fees,
    /// The gas it may use.
    pub gas_limit: u64,
    /// The token it was written under.
    pub fencing_token: FencingToken,
    /// When it was written; always before it was first sent.
    pub created_at: Timestamp,
    /// When it was last sent.
    pub last_sent_at: Option<Timestamp>,
    /// How often it was sent.
    pub sends: u32,
    /// What each endpoint said to it last, as JSON.
    pub said: Option<serde_json::Value>,
}

/// One lane's part of a batch of transactions that get their nonces: the plan, and a transaction
/// for each planned nonce, in the plan's order.
#[derive(Debug, Clone)]
pub struct TxBinding {
    /// The right to do it.
    pub claim: Claim,
    /// The nonces.
    pub plan: Plan,
    /// A transaction for each.
    pub txs: Vec<BindTx>,
    /// When each is to be sent again if it is not mined.
    pub resubmit_after: Option<Duration>,
}

/// A transaction that gets a nonce, with its signed bytes.
#[derive(Debug, Clone)]
pub struct BindTx {
    /// Which one.
    pub what: Bindable,
    /// Signed for exactly the planned nonce.
    pub attempt: NewAttempt,
}

/// Which transaction gets a nonce.
#[derive(Debug, Clone)]
pub enum Bindable {
    /// One that is accepted in the same commit. Refused while older ones of the lane wait.
    New(Box<NewTx>),
    /// One that was accepted before and has waited since, by compare-and-set on `CREATED`.
    Waiting(TxId),
}

/// One lane's part of a batch of changes.
#[derive(Debug, Clone)]
pub struct LaneChanges {
    /// The right to make them.
    pub claim: Claim,
    /// The changes, no transaction twice.
    pub changes: Vec<TxChange>,
}

/// A change of one transaction, by compare-and-set on the length of its history.
#[derive(Debug, Clone)]
pub struct TxChange {
    /// Which one.
    pub tx: TxId,
    /// How long its history must be.
    pub events: u32,
    /// Where it stands then.
    pub standing: Standing,
    /// The entry in its history. Without one only bookkeeping changes, and `updated_at` stays.
    pub event: Option<NewEvent>,
    /// The receipt.
    pub receipt: Set<Receipt>,
    /// The block up to which its confirmations have been told.
    pub told: Set<(u64, B256)>,
    /// What is wrong with it.
    pub error: Set<String>,
    /// It was just sent, or tried to be: by which attempt, and what the endpoints said.
    pub sent: Option<Sending>,
    /// When it is to be sent again, from now; `Clear` for never.
    pub resubmit_after: Set<Duration>,
    /// Its receipt was just asked for by itself.
    pub receipt_checked: bool,
    /// A new attempt, written before it is sent. The transaction goes by its hash from then on.
    pub attempt: Option<NewAttempt>,
    /// The transaction that took its nonce.
    pub rival: Set<Rival>,
    /// What becomes of its caller's wish.
    pub wish: WishEnd,
    /// A transaction accepted in its place, in the same commit; the two name each other.
    pub successor: Option<Box<NewTx>>,
}

impl TxChange {
    /// A change of nothing, to be filled in.
    pub fn new(tx: TxId, events: u32, standing: Standing) -> Self {
        Self {
            tx,
            events,
            standing,
            event: None,
            receipt: Set::Keep,
            told: Set::Keep,
            error: Set::Keep,
            sent: None,
            resubmit_after: Set::Keep,
            receipt_checked: false,
            attempt: None,
            rival: Set::Keep,
            wish: WishEnd::Keep,
            successor: None,
        }
    }
}

/// What becomes of a column.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Set<T> {
    /// It stays as it is.
    #[default]
    Keep,
    /// It becomes empty.
    Clear,
    /// It becomes this.
    To(T),
}

impl<T> Set<T> {
    /// Whether the column changes.
    pub(crate) fn is_set(&self) -> bool {
        !matches!(self, Self::Keep)
    }

    /// What it becomes, if not empty.
    pub(crate) fn value(&self) -> Option<&T> {
        match self {
            Self::To(value) => Some(value),
            Self::Keep | Self::Clear => None,
        }
    }
}

/// An attempt that was sent.
#[derive(Debug, Clone)]
pub struct Sending {
    /// Its hash.
    pub hash: B256,
    /// Whether a chain node has it now.
    pub taken: bool,
    /// What each endpoint said, as JSON.
    pub said: serde_json::Value,
}

/// An entry about to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// What happened.
    pub kind: EventKind,
    /// More about it, as a JSON object.
    pub data: serde_json::Value,
}

/// What became of one change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// Written; the history is this long now.
    Written {
        /// Its length.
        events: u32,
    },
    /// The transaction is not as the change expects it, or has a successor and stays closed: read it
    /// again.
    Lost,
}

/// One entry of a transaction's history, and of the stream of all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct TxEvent {
    /// Its place in the stream.
    pub position: StreamPosition,
    /// Whose history.
    pub tx: TxId,
    /// Whose transaction.
    pub tenant: String,
    /// The transaction's lane.
    pub lane: Lane,
    /// Its number in that history, from 1, without gaps.
    pub seq: u32,
    /// What happened.
    pub kind: EventKind,
    /// Where the transaction stood then.
    pub state: TxState,
    /// What there was to say about it.
    pub sub_state: Option<SubState>,
    /// When, by the database's clock.
    pub at: Timestamp,
    /// Who wrote it.
    pub node: NodeId,
    /// Under which token; `None` for what needs no lease.
    pub fencing_token: Option<FencingToken>,
    /// More about it.
    pub data: serde_json::Value,
}

/// One entry of the stream of all events.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// Of a transaction's history.
    Tx(TxEvent),
    /// Of a lane's.
    Lane(LaneEvent),
    /// The reader comes from another history of the database. Only for this reader, and always alone.
    HistoryChanged(HistoryChange),
}

impl StreamEvent {
    /// Its place in the stream.
    pub fn position(&self) -> StreamPosition {
        match self {
            Self::Tx(event) => event.position,
            Self::Lane(event) => event.position,
            Self::HistoryChanged(change) => change.position,
        }
    }

    /// Whose lane it is about; `None` if it is about all of them.
    pub fn lane(&self) -> Option<Lane> {
        match self {
            Self::Tx(event) => Some(event.lane),
            Self::Lane(event) => Some(event.lane),
            Self::HistoryChanged(_) => None,
        }
    }
}

/// The database has another history than the one that a place in the stream belongs to: a standby took
/// over, or a backup was restored. What was read last may never have happened, as far as the database
/// goes, and what comes next may have been read before. Nothing is missed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryChange {
    /// Where the reader goes on: where the histories part as far as that is known, or at the beginning.
    pub position: StreamPosition,
    /// The history it comes from; `None` if its place does not say.
    pub from: Option<StreamHistory>,
    /// The history that is being written.
    pub to: StreamHistory,
}

/// A history of the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamHistory {
    /// Its name.
    pub id: HistoryId,
    /// The timeline of PostgreSQL; `None` where there is none, or where the history is not on record.
    pub timeline: Option<String>,
}

/// The name of a history of the database, drawn at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HistoryId(pub(crate) i64);

impl HistoryId {
    pub(crate) fn fresh() -> Self {
        let (random, _) = Uuid::new_v4().as_u64_pair();
        Self((random >> 1).cast_signed() | 1)
    }
}

impl fmt::Display for HistoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A place in the stream of events, in one history of the database. Whoever has read up to one has
/// missed nothing before it, even though commits finish out of order. As text it is opaque, and stays
/// readable: places from before histories had names are read, too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamPosition {
    pub(crate) transaction: i64,
    pub(crate) entry: i64,
    pub(crate) history: Option<HistoryId>,
}

impl StreamPosition {
    /// The history that it is a place in, if it says so. Places in one history are in order.
    pub fn history(self) -> Option<HistoryId> {
        self.history
    }

    /// The same place without the name of its history.
    pub(crate) fn unnamed(self) -> Self {
        Self { history: None, ..self }
    }

    /// The same place in a history.
    pub(crate) fn of(self, history: HistoryId) -> Self {
        Self { history: Some(history), ..self }
    }
}

impl fmt::Display for StreamPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.transaction, self.entry)?;
        self.history.map_or(Ok(()), |history| write!(f, "-{history}"))
    }
}

impl FromStr for StreamPosition {
    type Err = stile_domain::UnknownName;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |text: &str| text.parse::<u64>().ok().and_then(|n| i64::try_from(n).ok());
        let history = |text: &str| {
            let digits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            let id = i64::from_str_radix(text, 16).ok().filter(|id| digits && *id > 0);
            id.map(HistoryId)
        };
        let mut parts = text.split('-');
        let position = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(transaction), Some(entry), None, None) => number(transaction)
                .zip(number(entry))
                .map(|(transaction, entry)| Self { transaction, entry, history: None }),
            (Some(transaction), Some(entry), Some(name), None) => {
                number(transaction).zip(number(entry)).zip(history(name)).map(
                    |((transaction, entry), name)| Self { transaction, entry, history: Some(name) },
                )
            }
            _ => None,
        };
        position.ok_or(stile_domain::UnknownName)
    }
}

/// A transaction with a nonce that is not settled, as its holder needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenTx {
    /// The transaction.
    pub tx: Tx,
    /// All of its attempts, oldest first.
    pub attempts: Vec<OpenAttempt>,
    /// Blocks on top of its own were replaced after the last entry in its history was written, so
    /// nobody has told yet.
    pub forked: bool,
}

/// What a holder keeps of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenAttempt {
    /// What it is for.
    pub kind: AttemptKind,
    /// Its hash.
    pub hash: B256,
    /// The bytes that are sent, and sent again. Empty where a newer attempt is sent instead, see
    /// [`crate::InFlightPage`].
    pub raw: Bytes,
}

/// Whose a nonce of a lane is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NonceOwner {
    /// The nonce.
    pub nonce: Nonce,
    /// Who has it.
    pub owner: LedgerOwner,
}

/// Who has a nonce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerOwner {
    /// A caller who signs and sends by itself.
    Hold(Hold),
    /// A managed transaction.
    Tx(TxId, TxState),
}

/// Which transactions to list.
#[derive(Debug, Clone, Default)]
pub struct TxFilter {
    /// Whose.
    pub tenant: String,
    /// Only on these lanes; `None` for all.
    pub lanes: Option<Vec<Lane>>,
    /// Only in this state.
    pub state: Option<TxState>,
    /// Only those accepted before the one at this position.
    pub before: Option<u64>,
    /// At most this many.
    pub limit: u32,
}

/// A page of transactions, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxPage {
    /// The transactions.
    pub txs: Vec<Tx>,
    /// `before` of the next page, if there is one.
    pub next: Option<u64>,
}

impl TxPage {
    /// A page from a list that was read with one more row than the page holds.
    pub(crate) fn cut(mut txs: Vec<Tx>, limit: u32) -> Self {
        let more = txs.len() > limit as usize;
        txs.truncate(limit as usize);
        let next = txs.last().filter(|_| more).map(|tx| tx.position);
        Self { txs, next }
    }
}

/// What a follower has learned about a chain since it last wrote.
#[derive(Debug, Clone)]
pub struct HeaderUpdate {
    /// The chain.
    pub chain: ChainId,
    /// Canonical headers that are new, or canonical again.
    pub canonical: Vec<Header>,
    /// Headers that were canonical and are no longer.
    pub replaced: Vec<Header>,
    /// Headers below this height are forgotten.
    pub keep_from: u64,
}

/// The outcome column of a mined transaction, for stores. One of which nobody knows how it ended has
/// none, and its receipt the status of a failed one: nodes of the version before read these rows
/// while nodes are replaced one by one, and know neither a name for it nor a receipt without a status.
pub(crate) fn outcome_name(standing: &Standing) -> Option<&'static str> {
    standing.outcome.filter(|outcome| *outcome != Outcome::Unknown).map(Outcome::name)
}

/// The receipt column.
pub(crate) fn receipt_column(receipt: &Receipt) -> Cow<'_, Receipt> {
    match receipt.status {
        Some(_) => Cow::Borrowed(receipt),
        None => Cow::Owned(Receipt { status: Some(false), ..receipt.clone() }),
    }
}

/// Where a transaction stands, and its receipt, by these two columns.
pub(crate) fn read_outcome(
    standing: Standing,
    receipt: Option<Receipt>,
) -> (Standing, Option<Receipt>) {
    let is_mined = matches!(standing.state, TxState::Tracking | TxState::Confirmed);
    match receipt {
        Some(receipt) if is_mined && standing.outcome.is_none() => (
            Standing { outcome: Some(Outcome::Unknown), ..standing },
            Some(Receipt { status: None, ..receipt }),
        ),
        receipt => (standing, receipt),
    }
}
