//! What an endpoint can do, as far as that is known, and what follows from what it cannot.
//!
//! It is found out once, when the endpoint is first seen well (`probe`), and from then on by what is
//! refused and answered in use. That an endpoint lacks something is believed for a while only:
//! another node may stand behind the address by then.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::tags::{Tag, TagWord, Without, has_tag};

/// Something that some nodes can do and others cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// The block tag `pending`.
    PendingTag,
    /// The block tag `safe`.
    SafeTag,
    /// The block tag `finalized`.
    FinalizedTag,
    /// `eth_getBlockReceipts`.
    BlockReceipts,
    /// `eth_feeHistory`.
    FeeHistory,
    /// `eth_maxPriorityFeePerGas`.
    MaxPriorityFee,
    /// Blocks have a base fee.
    BaseFee,
    /// `eth_estimateGas` on top of what is pending.
    EstimateOnPending,
    /// `eth_estimateGas` with a block at all.
    EstimateOnBlock,
    /// `eth_getTransactionByHash` shows what is not mined yet.
    PendingTransactions,
    /// Several questions at once.
    Batches,
    /// It is spoken to over a WebSocket.
    WebSocket,
    /// It announces new heads.
    Subscriptions,
    /// Transactions with a gas price and nothing else.
    LegacyTransactions,
    /// Transactions with an access list (EIP-2930).
    AccessListTransactions,
    /// Transactions with a tip and a highest fee (EIP-1559).
    FeeMarketTransactions,
}

impl Capability {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 16] = [
        Self::PendingTag,
        Self::SafeTag,
        Self::FinalizedTag,
        Self::BlockReceipts,
        Self::FeeHistory,
        Self::MaxPriorityFee,
        Self::BaseFee,
        Self::EstimateOnPending,
        Self::EstimateOnBlock,
        Self::PendingTransactions,
        Self::Batches,
        Self::WebSocket,
        Self::Subscriptions,
        Self::LegacyTransactions,
        Self::AccessListTransactions,
        Self::FeeMarketTransactions,
    ];

    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::PendingTag => "tag-pending",
            Self::SafeTag => "tag-safe",
            Self::FinalizedTag => "tag-finalized",
            Self::BlockReceipts => "block-receipts",
            Self::FeeHistory => "fee-history",
            Self::MaxPriorityFee => "max-priority-fee",
            Self::BaseFee => "base-fee",
            Self::EstimateOnPending => "estimate-on-pending",
            Self::EstimateOnBlock => "estimate-on-block",
            Self::PendingTransactions => "pending-transactions",
            Self::Batches => "batches",
            Self::WebSocket => "websocket",
            Self::Subscriptions => "subscriptions",
            Self::LegacyTransactions => "legacy-transactions",
            Self::AccessListTransactions => "access-list-transactions",
            Self::FeeMarketTransactions => "fee-market-transactions",
        }
    }

    /// What Stile does where an endpoint lacks it.
    pub fn instead(self) -> Option<&'static str> {
        Some(match self {
            Self::PendingTag => {
                "counts the account's mined transactions, and estimates on `latest`"
            }
            Self::SafeTag | Self::FinalizedTag => "finality by a number of blocks",
            Self::BlockReceipts => "asks for receipts one by one, in batches that fit",
            Self::FeeHistory => {
                "takes the base fee of the newest block and the tip the node advises"
            }
            Self::MaxPriorityFee => {
                "takes the tips of recent blocks, or the gas price less the base fee"
            }
            Self::BaseFee => "offers the gas price that the node advises",
            Self::EstimateOnPending => "estimates on the newest block",
            Self::EstimateOnBlock => "estimates without naming a block",
            Self::PendingTransactions => "sends again by time what is not mined",
            Self::Batches => "asks one question at a time",
            Self::WebSocket => "asks over HTTP",
            Self::Subscriptions => "looks for new blocks at the pace of the chain",
            Self::LegacyTransactions => return None,
            Self::AccessListTransactions => return None,
            Self::FeeMarketTransactions => "sends transactions with a gas price",
        })
    }

    /// What is not possible where an endpoint lacks it.
    pub fn impossible(self) -> Option<&'static str> {
        Some(match self {
            Self::SafeTag => "finality `safe`",
            Self::FinalizedTag => "finality `finalized`",
            Self::EstimateOnPending => {
                "estimates of transactions that rest on others not mined yet: state their gas limit"
            }
            Self::PendingTransactions => {
                "to tell a transaction that waits in the node's pool from one that the node dropped"
            }
            Self::LegacyTransactions => "transactions with a gas price",
            Self::AccessListTransactions => "transactions with an access list",
            Self::FeeMarketTransactions => "transactions that state `maxFeePerGas`",
            _ => return None,
        })
    }
}

/// Whether an endpoint can do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Supported {
    /// It can.
    Yes,
    /// It cannot.
    No,
    /// Not known yet.
    Unknown,
}

impl Supported {
    /// The name, as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Unknown => "unknown",
        }
    }
}

impl From<Option<bool>> for Supported {
    fn from(known: Option<bool>) -> Self {
        match known {
            Some(true) => Self::Yes,
            Some(false) => Self::No,
            None => Self::Unknown,
        }
    }
}

/// One line of the table of what an endpoint can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CapabilityRow {
    /// [`Capability::name`].
    pub name: &'static str,
    /// Whether the endpoint can do it.
    pub supported: Supported,
    /// How far, where that is more than yes or no.
    pub detail: Option<String>,
    /// What Stile does instead, where it cannot.
    pub instead: Option<&'static str>,
    /// What is not possible because of it.
    pub impossible: Option<&'static str>,
}

impl CapabilityRow {
    pub(crate) fn new(capability: Capability, known: Option<bool>) -> Self {
        let lacks = known == Some(false);
        Self {
            name: capability.name(),
            supported: known.into(),
            detail: None,
            instead: capability.instead().filter(|_| lacks),
            impossible: capability.impossible().filter(|_| lacks),
        }
    }
}

/// How long it is believed that an endpoint lacks something, unless it is found again.
const BELIEVED: Duration = Duration::from_secs(3600);

/// How often in a row something may fail before it is believed that an endpoint lacks it.
const GIVEN_UP: u32 = 3;

/// The same of a block that the node has no other word about than that there is none: with the first one of a
/// young chain, requests that wait for it are taken again.
const BELIEVED_NOT_TO_COME: Duration = Duration::from_secs(60);

/// How soon an endpoint is asked again for a tag that it did not know of.
const ASKED_AGAIN: Duration = Duration::from_secs(5);

/// What is known of one endpoint. Pure: time is an argument.
#[derive(Debug, Clone, Default)]
pub(crate) struct Learned {
    known: [Option<(bool, Instant)>; Capability::ALL.len()],
    tags: [TagAsked; Tag::ALL.len()],
    /// How often in a row it failed to show that it can.
    failed: [u32; Capability::ALL.len()],
}

/// When an endpoint was asked for a tag.
#[derive(Debug, Clone, Copy, Default)]
struct TagAsked {
    last: Option<Instant>,
    /// Since when it says that there is no such block yet, and the height of its newest then.
    not_yet: Option<(Instant, Option<u64>)>,
    /// It has said that it does not know the name.
    is_unknown: bool,
}

impl Learned {
    /// Whether it can, as far as that is known.
    pub(crate) fn knows(&self, capability: Capability, now: Instant) -> Option<bool> {
        let (can, since) = self.known[capability as usize]?;
        let believed = match self.may_come(capability) {
            true => BELIEVED_NOT_TO_COME,
            false => BELIEVED,
        };
        (can || now.duration_since(since) < believed).then_some(can)
    }

    /// Whether it is a tag whose name is known, and only no block has it.
    fn may_come(&self, capability: Capability) -> bool {
        let mut tags = [Tag::Safe, Tag::Finalized].into_iter();
        tags.any(|tag| tag.capability() == capability && self.tags[tag as usize].not_yet.is_some())
    }

    /// It showed that it can, or cannot.
    pub(crate) fn note(&mut self, capability: Capability, can: bool, now: Instant) {
        self.known[capability as usize] = Some((can, now));
        self.failed[capability as usize] = 0;
    }

    /// It failed in a way that may pass. What fails again and again is as good as not offered.
    pub(crate) fn note_failed(&mut self, capability: Capability, now: Instant) {
        let failed = &mut self.failed[capability as usize];
        *failed += 1;
        if *failed >= GIVEN_UP {
            self.note(capability, false, now);
        }
    }

    /// It offers this or not, by an answer that does not show how well. What was once refused, or has failed
    /// in use, stays so as long as the same node is there.
    pub(crate) fn note_offered(&mut self, capability: Capability, offers: bool, now: Instant) {
        let failed = matches!(self.known[capability as usize], Some((false, _)));
        self.note(capability, offers && !failed, now);
    }

    /// Another node is behind the address: nothing is known of that one.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// It was asked for the block of this name, where its newest is at this height.
    pub(crate) fn note_tag(&mut self, tag: Tag, word: TagWord, height: Option<u64>, now: Instant) {
        let asked = &mut self.tags[tag as usize];
        asked.last = Some(now);
        match word {
            TagWord::NotYet => {
                let (since, first) = asked.not_yet.unwrap_or((now, height));
                asked.not_yet = Some((since, first.or(height)));
            }
            TagWord::Has | TagWord::Lacks => asked.not_yet = None,
            TagWord::Nothing => {}
        }
        asked.is_unknown = match word {
            TagWord::Nothing => asked.is_unknown,
            word => word == TagWord::Lacks,
        };
        let without = asked.not_yet.map_or_else(Without::default, |(since, first)| Without {
            lasts: now.duration_since(since),
            blocks: height.zip(first).map_or(0, |(height, first)| height.saturating_sub(first)),
        });
        if let Some(has) = has_tag(word, tag, height, without) {
            // What once had such a block is a node that was just started, and not one without.
            if has || word == TagWord::Lacks || self.knows(tag.capability(), now) != Some(true) {
                self.note(tag.capability(), has, now);
            }
        }
    }

    /// Whether it does not know the name of a tag. To have no such block is something else: a node may show
    /// no pending block and know what is pending.
    pub(crate) fn is_unknown(&self, tag: Tag, now: Instant) -> bool {
        self.tags[tag as usize].is_unknown && self.knows(tag.capability(), now) == Some(false)
    }

    /// Whether asking for a tag may tell something new.
    pub(crate) fn is_to_be_asked(&self, tag: Tag, now: Instant) -> bool {
        let last = self.tags[tag as usize].last;
        self.knows(tag.capability(), now).is_none()
            && last.is_none_or(|last| now.duration_since(last) >= ASKED_AGAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_table_is_that_of_the_capabilities() {
        for (place, capability) in Capability::ALL.into_iter().enumerate() {
            assert_eq!(capability as usize, place, "{}", capability.name());
        }
    }

    #[test]
    fn what_an_endpoint_can_do_has_no_excuses() {
        for capability in Capability::ALL {
            for known in [Some(true), None] {
                let row = CapabilityRow::new(capability, known);
                assert_eq!((row.instead, row.impossible), (None, None), "{row:?}");
            }
            let row = CapabilityRow::new(capability, Some(false));
            assert!(row.instead.is_some() || row.impossible.is_some(), "{row:?}");
        }
    }

    #[test]
    fn what_an_endpoint_lacks_is_asked_for_again_some_day() {
        let (mut learned, now) = (Learned::default(), Instant::now());
        assert_eq!(learned.knows(Capability::FeeHistory, now), None);
        learned.note(Capability::FeeHistory, false, now);
        learned.note(Capability::BlockReceipts, true, now);
        assert_eq!(learned.knows(Capability::FeeHistory, now), Some(false));
        let later = now + BELIEVED;
        assert_eq!(learned.knows(Capability::FeeHistory, later), None);
        assert_eq!(learned.knows(Capability::BlockReceipts, later), Some(true));
        learned.forget();
        assert_eq!(learned.knows(Capability::BlockReceipts, later), None);
    }

    #[test]
    fn hole_37_what_fails_again_and_again_is_lacking_for_a_while() {
        let (mut learned, now) = (Learned::default(), Instant::now());
        let history = Capability::FeeHistory;
        for (failures, expected) in [(1, None), (2, None), (3, Some(false))] {
            learned.note_failed(history, now);
            assert_eq!(learned.knows(history, now), expected, "{failures}");
        }
        assert_eq!(learned.knows(history, now + BELIEVED), None);
        learned.note(history, true, now);
        learned.note_failed(history, now);
        learned.note_failed(history, now);
        learned.note(history, true, now);
        learned.note_failed(history, now);
        assert_eq!(learned.knows(history, now), Some(true), "not in a row");
    }

    #[test]
    fn hole_37_what_has_failed_in_use_stays_so_until_another_node_is_there() {
        let (mut learned, now) = (Learned::default(), Instant::now());
        learned.note_offered(Capability::BlockReceipts, true, now);
        assert_eq!(learned.knows(Capability::BlockReceipts, now), Some(true));
        learned.note(Capability::BlockReceipts, false, now);
        let later = now + BELIEVED;
        learned.note_offered(Capability::BlockReceipts, true, later);
        assert_eq!(learned.knows(Capability::BlockReceipts, later), Some(false));
        learned.forget();
        learned.note_offered(Capability::BlockReceipts, true, later);
        assert_eq!(learned.knows(Capability::BlockReceipts, later), Some(true));
    }

    #[test]
    fn a_node_that_was_just_started_has_not_lost_its_tags() {
        let (mut learned, now) = (Learned::default(), Instant::now());
        let old = Some(1_000_000);
        assert!(learned.is_to_be_asked(Tag::Safe, now));
        learned.note_tag(Tag::Safe, TagWord::NotYet, old, now);
        assert!(!learned.is_to_be_asked(Tag::Safe, now), "not by everybody who comes");
        let later = now + crate::tags::NEVER_COMES;
        assert!(learned.is_to_be_asked(Tag::Safe, later));
        learned.note_tag(Tag::Safe, TagWord::NotYet, old, later);
        assert_eq!(learned.knows(Capability::SafeTag, later), Some(false));
        learned.note_tag(Tag::Safe, TagWord::Has, old, later);
        for minutes in [0, 20, 40] {
            let at = later + Duration::from_secs(minutes * 60);
            learned.note_tag(Tag::Safe, TagWord::NotYet, old, at);
            assert_eq!(learned.knows(Capability::SafeTag, at), Some(true));
        }
        learned.note_tag(Tag::Safe, TagWord::Lacks, old, later);
        assert_eq!(learned.knows(Capability::SafeTag, later), Some(false));
    }

    #[test]
    fn hole_38_a_tag_that_no_block_has_had_for_many_is_lacking_until_the_first_has() {
        let (mut learned, now) = (Learned::default(), Instant::now());
        let knows =
            |learned: &Learned, at: u64| learned.knows(Capability::SafeTag, now + seconds(at));
        fn seconds(many: u64) -> Duration {
            Duration::from_secs(many)
        }
        for (at, word, height, expected) in [
            (0, TagWord::NotYet, None, None),
            (1, TagWord::NotYet, Some(500), None),
            (2, TagWord::NotYet, Some(1_499), None),
            (3, TagWord::Nothing, Some(1_500), None),
            (4, TagWord::NotYet, Some(1_500), Some(false)),
            (5, TagWord::NotYet, Some(1_501), Some(false)),
            (6, TagWord::Has, Some(1_502), Some(true)),
            // It was started anew.
            (7, TagWord::NotYet, Some(3_000), Some(true)),
        ] {
            learned.note_tag(Tag::Safe, word, height, now + seconds(at));
            assert_eq!(knows(&learned, at), expected, "{at} {word:?} {height:?}");
        }
        let mut learned = Learned::default();
        learned.note_tag(Tag::Safe, TagWord::NotYet, Some(1), now);
        learned.note_tag(Tag::Safe, TagWord::NotYet, Some(1_001), now);
        assert_eq!(knows(&learned, 59), Some(false));
        assert_eq!(knows(&learned, 60), None, "it is asked for again");
        learned.note_tag(Tag::Safe, TagWord::Lacks, Some(1_001), now);
        assert_eq!(knows(&learned, 3_599), Some(false), "a name that it does not know");
    }

    #[test]
    fn hole_20_to_have_no_pending_block_is_not_to_be_without_the_tag() {
        let now = Instant::now();
        for (word, expected) in [
            (TagWord::Lacks, true),
            (TagWord::NotYet, false),
            (TagWord::Nothing, false),
            (TagWord::Has, false),
        ] {
            let mut learned = Learned::default();
            learned.note_tag(Tag::Pending, word, Some(7), now);
            assert_eq!(learned.is_unknown(Tag::Pending, now), expected, "{word:?}");
            learned.note_tag(Tag::Pending, TagWord::Has, Some(7), now);
            assert!(!learned.is_unknown(Tag::Pending, now), "{word:?}");
        }
    }
}
