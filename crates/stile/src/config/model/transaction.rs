//! How managed transactions are sent, and when they are called done.

use serde::{Deserialize, Serialize};

use crate::config::value::{HumanDuration, choice};

/// `[tx]`: how managed transactions are sent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tx {
    /// Sending again what does not get mined.
    pub resubmit: Resubmit,
    /// What transactions offer whose callers do not say.
    pub fees: Fees,
    /// Finding out how much gas a transaction needs.
    pub estimate: Estimate,
}

/// `[tx.estimate]`: finding out how much gas a transaction needs whose caller does not say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Estimate {
    /// How often it is tried before the transaction is refused.
    pub tries: u32,
    /// The pause after the first try.
    pub interval: HumanDuration,
    /// The longest pause.
    pub max_interval: HumanDuration,
}

impl Default for Estimate {
    fn default() -> Self {
        Self {
            tries: 8,
            interval: HumanDuration::from_secs(2),
            max_interval: HumanDuration::from_secs(60),
        }
    }
}

/// `[tx.fees]`: what transactions offer whose callers do not say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fees {
    /// Which part of a block's gas paid less on top of the base fee than is offered.
    pub percentile: f64,
    /// From how many of the newest blocks that is read.
    pub blocks: u64,
}

impl Default for Fees {
    fn default() -> Self {
        Self { percentile: 50.0, blocks: 5 }
    }
}

/// `[tx.resubmit]`: sending again what does not get mined.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Resubmit {
    /// Whether it is done at all.
    pub enabled: bool,
    /// The silence after which the stored bytes are sent again.
    pub interval: HumanDuration,
    /// The silence after which an attempt with a higher fee is made.
    pub bump_after: HumanDuration,
    /// By how much such an attempt raises the fee.
    pub bump_percent: f64,
    /// The most attempts for one transaction; 0 means no limit.
    pub max_attempts: u32,
}

impl Default for Resubmit {
    fn default() -> Self {
        Self {
            enabled: true,
            interval: HumanDuration::from_secs(60),
            bump_after: HumanDuration::from_secs(120),
            bump_percent: 12.5,
            max_attempts: 0,
        }
    }
}

choice! {
    /// A block the chain itself vouches for.
    pub enum FinalityTag {
        /// Unlikely to be reorganised away.
        Safe = "safe",
        /// Never reorganised away.
        Finalized = "finalized",
    }
}

/// The evidence that is waited for before a transaction is called done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Finality {
    /// This many blocks on top of the transaction's own: `required = 20`.
    Confirmations(u32),
    /// The chain's own word: `finality = "safe"`.
    Tag(FinalityTag),
}

/// `[confirmations]`: when a transaction is called done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Confirmations {
    /// The evidence waited for, unless a transaction asks for other; `required` or `finality` in
    /// the file.
    pub finality: Finality,
    /// The silence after which a receipt is asked for by itself.
    pub stale_receipt_timeout: HumanDuration,
    /// The most receipts asked for at the same time.
    pub receipt_workers: usize,
    /// Whether the receipt is asked for right after the broadcast.
    pub fetch_receipt_upon_entry: bool,
    /// The depth in blocks from which a transaction is not reopened any more.
    pub reorg_window: u32,
    /// How often chains are looked at whose endpoints do not announce new blocks; slow ones that make
    /// their blocks by a clock less often.
    pub poll_interval: HumanDuration,
}

impl Default for Confirmations {
    fn default() -> Self {
        Self {
            finality: Finality::Confirmations(20),
            stale_receipt_timeout: HumanDuration::from_secs(60),
            receipt_workers: 10,
            fetch_receipt_upon_entry: false,
            reorg_window: 128,
            poll_interval: HumanDuration::from_millis(500),
        }
    }
}

/// The section as it is written, where the two kinds of finality are two keys.
#[derive(Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Written {
    #[serde(skip_serializing_if = "Option::is_none")]
    required: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finality: Option<FinalityTag>,
    stale_receipt_timeout: HumanDuration,
    receipt_workers: usize,
    fetch_receipt_upon_entry: bool,
    reorg_window: u32,
    poll_interval: HumanDuration,
}

impl Default for Written {
    fn default() -> Self {
        // Neither kind of finality, so that it can be seen whether one was written.
        let mut written = Self::from(Confirmations::default());
        written.required = None;
        written
    }
}

impl From<Confirmations> for Written {
    fn from(confirmations: Confirmations) -> Self {
        let (required, finality) = match confirmations.finality {
            Finality::Confirmations(required) => (Some(required), None),
            Finality::Tag(tag) => (None, Some(tag)),
        };
        Self {
            required,
            finality,
            stale_receipt_timeout: confirmations.stale_receipt_timeout,
            receipt_workers: confirmations.receipt_workers,
            fetch_receipt_upon_entry: confirmations.fetch_receipt_upon_entry,
            reorg_window: confirmations.reorg_window,
            poll_interval: confirmations.poll_interval,
        }
    }
}

impl TryFrom<Written> for Confirmations {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let finality = match (written.required, written.finality) {
            (None, None) => Self::default().finality,
            (Some(required), None) => Finality::Confirmations(required),
            (None, Some(tag)) => Finality::Tag(tag),
            (Some(_), Some(_)) => return Err("give either required or finality, not both"),
        };
        Ok(Self {
            finality,
            stale_receipt_timeout: written.stale_receipt_timeout,
            receipt_workers: written.receipt_workers,
            fetch_receipt_upon_entry: written.fetch_receipt_upon_entry,
            reorg_window: written.reorg_window,
            poll_interval: written.poll_interval,
        })
    }
}
