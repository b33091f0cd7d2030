//! What a run leaves behind. All times are of one machine's clock, which the database shares.

use std::collections::{BTreeMap, BTreeSet};

/// Microseconds since 1970.
pub type Micros = i64;

/// Whose the transactions are that close gaps.
pub const FILLER_TENANT: &str = "stile:filler";

/// Everything that is looked at when a run is over. Hashes and addresses are in lower case, with
/// their prefix.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// The clients' calls, as they came back.
    pub calls: Vec<Call>,
    /// What was sent to the chain past Stile: by callers with a nonce of their own, and by outsiders.
    pub own: Vec<Own>,
    /// Managed transactions.
    pub txs: Vec<Tx>,
    /// Their signed attempts.
    pub attempts: Vec<Attempt>,
    /// Their histories.
    pub events: Vec<Event>,
    /// The nonce ledger.
    pub nonces: Vec<NonceRow>,
    /// The lanes as they stand at the end.
    pub lanes: Vec<Lane>,
    /// The lanes' histories.
    pub lane_events: Vec<LaneEvent>,
    /// Every canonical block, lowest first.
    pub chain: Vec<Block>,
    /// Signed bytes seen on their way from a node to the chain.
    pub wire: Vec<Sent>,
    /// The lanes' tokens, looked at all the time.
    pub samples: Vec<TokenSample>,
    /// Blocks that were taken back on purpose.
    pub reorgs: Vec<Reorg>,
    /// Writes that nodes say were refused because their token was superseded.
    pub fenced_rejects: u64,
    /// When the database went back to what it had been.
    pub restores: Vec<Restore>,
    /// Transactions as they were in the histories that were lost with that.
    pub lost_txs: Vec<Tx>,
    /// Attempts in the histories that were lost with that.
    pub lost_attempts: Vec<Attempt>,
    /// Hashes of blocks, and of transactions with receipts, that only liars know of.
    pub made_up: BTreeSet<String>,
    /// What arrived where only a hostile Redis says that nodes are.
    pub astray: Vec<String>,
    /// Lies that endpoints told, and who was named meanwhile.
    pub lies: Vec<LieTold>,
    /// Whether nothing else went wrong: then nobody who lies stays unnamed.
    pub only_lies: bool,
    /// Transactions that a person has closed after a restore, as sent in the history that was lost.
    pub closed: BTreeSet<String>,
}

/// A lie that one endpoint of every node told for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LieTold {
    /// When it began.
    pub at: Micros,
    /// Its kind, by its name.
    pub kind: &'static str,
    /// The endpoint's place.
    pub endpoint: usize,
    /// How many nodes there are.
    pub nodes: usize,
    /// How many nodes' doctors named it.
    pub doctors: usize,
    /// How many nodes' metrics named it.
    pub metrics: usize,
    /// How many nodes' metrics named another endpoint.
    pub others: usize,
}

/// A database that went back to what it had been.
#[derive(Debug, Clone)]
pub struct Restore {
    /// What was committed before is in it.
    pub kept_at: Micros,
    /// It is in use again from then on. Whatever was answered in between is gone, or may be.
    pub at: Micros,
}

impl Restore {
    /// Whether something that took from the first to the last of these times may be gone.
    fn may_have_lost(&self, first: Micros, last: Micros) -> bool {
        first < self.at && last >= self.kept_at
    }
}

/// One call of a client.
#[derive(Debug, Clone)]
pub struct Call {
    /// When it was made.
    pub at: Micros,
    /// When its answer came, or was given up.
    pub ended_at: Micros,
    /// The node that was asked.
    pub node: usize,
    /// What was asked.
    pub ask: Ask,
    /// What came back.
    pub answer: Answer,
}

/// What a client asks a node for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// Send a transfer of so many wei.
    Send { signer: String, request_id: String, wei: u64, gas: Gas },
    /// Withdraw it.
    Cancel { tx_id: String },
    /// Offer more.
    SpeedUp { tx_id: String },
    /// Give out a bare nonce.
    Allocate { signer: String, key: String },
    /// It was used.
    Used { signer: String, nonce: u64, hold_id: String, tx_hash: String },
    /// It was not, and will not be.
    Recyclable { signer: String, nonce: u64, hold_id: String },
}

/// What a client says about the gas of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gas {
    /// As much as it needs.
    Stated,
    /// Nothing: it is to be estimated.
    Estimated,
    /// Nothing, and no endpoint ever answers to an estimate of it.
    NeverEstimated,
    /// Less than any transaction needs: no endpoint takes it.
    TooLittle,
}

/// What a node said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Nothing that the client could read: refused, cut off, too late.
    Lost,
    /// A status with what matters of the body.
    Said {
        /// The HTTP status.
        status: u16,
        /// The code of a problem.
        code: Option<String>,
        /// The transaction.
        tx_id: Option<String>,
        /// The hold.
        hold_id: Option<String>,
        /// The nonce, where one is told.
        nonce: Option<u64>,
    },
}

impl Answer {
    /// The HTTP status, if there was one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Lost => None,
            Self::Said { status, .. } => Some(*status),
        }
    }

    /// Whether it is a success.
    pub fn is_success(&self) -> bool {
        self.status().is_some_and(|status| status / 100 == 2)
    }

    /// The code of a problem.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Said { code, .. } => code.as_deref(),
            Self::Lost => None,
        }
    }

    /// The transaction it is about.
    pub fn tx_id(&self) -> Option<&str> {
        match self {
            Self::Said { tx_id, .. } => tx_id.as_deref(),
            Self::Lost => None,
        }
    }

    /// The hold it is about.
    pub fn hold_id(&self) -> Option<&str> {
        match self {
            Self::Said { hold_id, .. } => hold_id.as_deref(),
            Self::Lost => None,
        }
    }

    /// The nonce it tells.
    pub fn nonce(&self) -> Option<u64> {
        match self {
            Self::Said { nonce, .. } => *nonce,
            Self::Lost => None,
        }
    }
}

/// A transaction that went to the chain past Stile.
#[derive(Debug, Clone)]
pub struct Own {
    /// When it was first sent.
    pub at: Micros,
    /// Whose key signed it.
    pub signer: String,
    /// Its nonce.
    pub nonce: u64,
    /// Its hash.
    pub hash: String,
    /// The hold it was sent under; none for an outsider.
    pub hold_id: Option<String>,
}

/// A row of `tx`.
#[derive(Debug, Clone)]
pub struct Tx {
    pub id: String,
    pub tenant: String,
    pub signer: String,
    pub request_id: Option<String>,
    /// The wei it carries, as it was asked for.
    pub wei: String,
    pub nonce: Option<u64>,
    pub state: String,
    pub sub_state: Option<String>,
    pub tx_hash: Option<String>,
    pub block_number: Option<u64>,
    pub block_hash: Option<String>,
    /// A number of blocks, `safe` or `finalized`.
    pub finality: String,
    /// How long its history is.
    pub events: u64,
    pub created_at: Micros,
}

impl Tx {
    /// Whether only a reorganisation can change it.
    pub fn is_done(&self) -> bool {
        self.state == "CONFIRMED" || self.state == "FAILED"
    }
}

/// A row of `attempt`.
#[derive(Debug, Clone)]
pub struct Attempt {
    pub tx_id: String,
    pub number: u64,
    pub kind: String,
    pub hash: String,
    pub token: u64,
    pub created_at: Micros,
}

impl Attempt {
    /// Whether it does what the transaction was asked to do.
    pub fn carries_payload(&self) -> bool {
        self.kind != "CANCEL" && self.kind != "GIVE_UP"
    }
}

/// A row of `tx_event`.
#[derive(Debug, Clone)]
pub struct Event {
    pub tx_id: String,
    pub seq: u64,
    /// Its place among all entries, given under the lane's lock where it carries a token.
    pub entry: i64,
    pub signer: String,
    pub kind: String,
    pub state: String,
    pub sub_state: Option<String>,
    pub at: Micros,
    pub node: String,
    pub token: Option<u64>,
    pub data: String,
}

/// A row of `nonce`.
#[derive(Debug, Clone)]
pub struct NonceRow {
    pub signer: String,
    pub nonce: u64,
    /// `hold`, `tx` or `filler`.
    pub owner_kind: String,
    pub owner_id: String,
    pub status: String,
    pub token: u64,
    pub updated_at: Micros,
}

/// A row of `lane`.
#[derive(Debug, Clone)]
pub struct Lane {
    pub signer: String,
    pub owner: String,
    pub token: u64,
    pub next_nonce: Option<u64>,
    pub paused: Option<String>,
}

/// A row of `lane_event`.
#[derive(Debug, Clone)]
pub struct LaneEvent {
    pub entry: i64,
    pub signer: String,
    pub kind: String,
    pub at: Micros,
    pub node: String,
    pub token: Option<u64>,
    pub data: String,
}

/// A canonical block.
#[derive(Debug, Clone)]
pub struct Block {
    pub height: u64,
    pub hash: String,
    /// By the chain's own clock, in seconds.
    pub timestamp: i64,
    pub txs: Vec<Mined>,
}

/// A transaction in a block.
#[derive(Debug, Clone)]
pub struct Mined {
    pub hash: String,
    pub from: String,
    pub nonce: u64,
    /// In wei, decimal.
    pub wei: String,
}

/// Signed bytes on their way to the chain.
#[derive(Debug, Clone)]
pub struct Sent {
    pub at: Micros,
    /// Which endpoint of which node.
    pub endpoint: String,
    pub hash: String,
    pub record: OnRecord,
}

/// Whether bytes were committed as an attempt when they were seen on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnRecord {
    /// They were.
    Yes,
    /// They were not.
    No,
    /// The store could not be asked; the times have to tell.
    Unknown,
}

/// A lane's token as somebody saw it committed.
#[derive(Debug, Clone)]
pub struct TokenSample {
    /// By the database's clock, after the look.
    pub at: Micros,
    pub signer: String,
    pub token: u64,
    pub owner: String,
}

/// Blocks that were replaced.
#[derive(Debug, Clone)]
pub struct Reorg {
    pub at: Micros,
    /// The lowest height that may have been replaced.
    pub first_height: u64,
    pub depth: u64,
}

/// Where a canonical transaction is.
#[derive(Debug, Clone, Copy)]
pub struct Place<'e> {
    pub block: &'e Block,
    pub mined: &'e Mined,
}

impl Evidence {
    /// Every canonical transaction by its hash.
    pub fn mined_by_hash(&self) -> BTreeMap<&str, Place<'_>> {
        self.places().map(|place| (place.mined.hash.as_str(), place)).collect()
    }

    /// Every canonical transaction by its account and nonce.
    pub fn mined_by_nonce(&self) -> BTreeMap<(&str, u64), Place<'_>> {
        let places = self.places();
        places.map(|place| ((place.mined.from.as_str(), place.mined.nonce), place)).collect()
    }

    /// Every canonical transaction.
    pub fn places(&self) -> impl Iterator<Item = Place<'_>> {
        self.chain
            .iter()
            .flat_map(|block| block.txs.iter().map(move |mined| Place { block, mined }))
    }

    /// Whether what was seen in the database at this time may be gone from it since.
    pub fn is_lost(&self, at: Micros) -> bool {
        self.restores.iter().any(|restore| restore.may_have_lost(at, at))
    }

    /// Whether what this call was told may be gone from the database since.
    pub fn is_lost_call(&self, call: &Call) -> bool {
        self.restores.iter().any(|restore| restore.may_have_lost(call.at, call.ended_at))
    }

    /// Every attempt there ever was, by its hash: those on record now, and those of lost histories.
    /// Where one is in both, the older entry counts: what was found on the chain after a restore was
    /// stored before it was sent all the same.
    pub fn attempts_by_hash(&self) -> BTreeMap<&str, &Attempt> {
        let mut all: BTreeMap<&str, &Attempt> = BTreeMap::new();
        for attempt in self.attempts.iter().chain(&self.lost_attempts) {
            let known = all.entry(&attempt.hash).or_insert(attempt);
            if attempt.created_at < known.created_at {
                *known = attempt;
            }
        }
        all
    }

    /// The height of the newest canonical block.
    pub fn head(&self) -> u64 {
        self.chain.last().map_or(0, |block| block.height)
    }

    /// Transactions by their ids.
    pub fn txs_by_id(&self) -> BTreeMap<&str, &Tx> {
        self.txs.iter().map(|tx| (tx.id.as_str(), tx)).collect()
    }

    /// Each transaction's attempts.
    pub fn attempts_by_tx(&self) -> BTreeMap<&str, Vec<&Attempt>> {
        let mut grouped: BTreeMap<&str, Vec<&Attempt>> = BTreeMap::new();
        for attempt in &self.attempts {
            grouped.entry(&attempt.tx_id).or_default().push(attempt);
        }
        grouped
    }

    /// Each transaction's history, in its order.
    pub fn events_by_tx(&self) -> BTreeMap<&str, Vec<&Event>> {
        let mut grouped: BTreeMap<&str, Vec<&Event>> = BTreeMap::new();
        for event in &self.events {
            grouped.entry(&event.tx_id).or_default().push(event);
        }
        for events in grouped.values_mut() {
            events.sort_by_key(|event| event.seq);
        }
        grouped
    }
}
