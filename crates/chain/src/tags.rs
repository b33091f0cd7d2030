//! Whether a chain has a block tag, by what its endpoints say.
//!
//! Transactions may ask for a finality that rests on a tag. Where no node of the chain has that tag
//! it would never come, so it is refused at the door. A single endpoint decides nothing there: an old
//! node among new ones has not got it either.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::time::{Instant, timeout_at};

use crate::ChainPool;
use crate::blocks::{With, tag_call};
use crate::capability::Capability;
use crate::endpoint::Endpoint;
use crate::pool::one;
use crate::rpc::{Answer, CallError, read};

/// A name for a block that the node resolves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// The block that the node would make now.
    Pending,
    /// The newest block that is unlikely to be replaced.
    Safe,
    /// The newest block that cannot be replaced.
    Finalized,
}

impl Tag {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Safe, Self::Finalized];

    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Safe => "safe",
            Self::Finalized => "finalized",
        }
    }

    /// What an endpoint has that knows it.
    pub(crate) fn capability(self) -> Capability {
        match self {
            Self::Pending => Capability::PendingTag,
            Self::Safe => Capability::SafeTag,
            Self::Finalized => Capability::FinalizedTag,
        }
    }
}

/// What an answer says about a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TagWord {
    /// There is a block of that name.
    Has,
    /// The node does not know the name.
    Lacks,
    /// It knows the name, and there is no such block, or only the very first one. A chain that has
    /// just begun has none for a while, and so has a node that was just started.
    NotYet,
    /// It says nothing about the tag.
    Nothing,
}

/// What nodes say that have no block of that name yet: geth and its descendants.
const NO_SUCH_BLOCK: [&str; 5] = [
    "finalized block not found",
    "safe block not found",
    "block not found",
    "unknown block",
    "header not found",
];

/// What nodes say that do not know the name.
const NO_SUCH_TAG: [&str; 12] = [
    "0x prefix",
    "block tag",
    "blocktag",
    "unknown variant",
    "invalid block number",
    "invalid blocknumber",
    "invalid argument 0",
    "invalid value",
    "cannot unmarshal",
    "could not be parsed",
    "not supported",
    "unsupported",
];

/// The same where something else was asked than the block, so that only words about a tag are one.
const ABOUT_A_TAG: [&str; 5] =
    ["0x prefix", "block tag", "blocktag", "invalid block number", "invalid blocknumber"];

/// Whether a node says that it does not know a tag, whatever was asked of it.
pub(crate) fn is_about_a_tag(error: &CallError) -> bool {
    let CallError::Said { message, .. } = error else { return false };
    let text = message.to_ascii_lowercase();
    ABOUT_A_TAG.iter().any(|phrase| text.contains(phrase))
}

/// Invalid parameters.
const INVALID_PARAMS: i64 = -32602;

/// Reads what an endpoint says about a tag when it is asked for the block of that name.
pub(crate) fn tag_word(answer: Answer, tag: Tag) -> TagWord {
    #[derive(Deserialize)]
    struct Told {
        #[serde(default)]
        number: Option<alloy::primitives::U64>,
        #[serde(rename = "parentHash")]
        _parent: IgnoredAny,
    }
    let error = match read::<Told>(answer) {
        Ok(Some(told)) => {
            let is_first = told.number.is_some_and(|number| number.is_zero());
            return match is_first && tag != Tag::Pending {
                true => TagWord::NotYet,
                false => TagWord::Has,
            };
        }
        Ok(None) => return TagWord::NotYet,
        Err(error) => error,
    };
    let CallError::Said { code, message, .. } = &error else { return TagWord::Nothing };
    let text = message.to_ascii_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    match code {
        _ if says(&NO_SUCH_BLOCK) => TagWord::NotYet,
        &INVALID_PARAMS => TagWord::Lacks,
        _ if says(&NO_SUCH_TAG) => TagWord::Lacks,
        _ => TagWord::Nothing,
    }
}

/// How many blocks a chain has that is no longer young: some have no finalized block for hours after
/// their beginning.
const NO_LONGER_YOUNG: u64 = 2_000;

/// How long a node of such a chain says that it has no such block before it is said to have none: one
/// that was just started waits for its other half.
pub(crate) const NEVER_COMES: Duration = Duration::from_secs(600);

/// The same of a young chain: so long, or for so many blocks.
const NEVER_COMES_TO_THE_YOUNG: Duration = Duration::from_secs(1800);
const NEVER_COMES_WITHIN: u64 = 1_000;

/// Since when an endpoint says that there is no such block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Without {
    pub(crate) lasts: Duration,
    /// How many blocks there were meanwhile.
    pub(crate) blocks: u64,
}

impl Without {
    /// Whether none is to be expected any more, where the newest block is at this height.
    fn is_for_good(self, height: Option<u64>) -> bool {
        let is_old = height.is_some_and(|height| height > NO_LONGER_YOUNG);
        (is_old && self.lasts >= NEVER_COMES)
            || self.lasts >= NEVER_COMES_TO_THE_YOUNG
            || self.blocks >= NEVER_COMES_WITHIN
    }
}

/// Whether an endpoint has a tag, by what it said; `None` while that is not known. `height`: its
/// newest block.
pub(crate) fn has_tag(
    word: TagWord,
    tag: Tag,
    height: Option<u64>,
    without: Without,
) -> Option<bool> {
    match word {
        TagWord::Has => Some(true),
        TagWord::Lacks => Some(false),
        TagWord::Nothing => None,
        // Nobody waits for a pending block to come.
        TagWord::NotYet if tag == Tag::Pending => height.is_some_and(|it| it > 0).then_some(false),
        TagWord::NotYet => without.is_for_good(height).then_some(false),
    }
}

/// Whether the chain has what so many of its endpoints say they have or lack. `None` as long as
/// those who have not said anything could turn it.
pub(crate) fn by_quorum(required: usize, configured: usize, words: &[bool]) -> Option<bool> {
    let have = words.iter().filter(|has| **has).count();
    let lack = words.len() - have;
    if have >= required {
        Some(true)
    } else if configured.saturating_sub(lack) < required {
        Some(false)
    } else {
        None
    }
}

impl ChainPool {
    /// Whether the chain has a tag, by the word of a quorum of its configured endpoints: from memory
    /// where that is known, else they are asked. `None` if it is not known by then, as on a chain that
    /// has just begun, or while endpoints are away. An endpoint that did not know is not asked again
    /// for some seconds, so that callers who come one after the other do not each ask.
    pub async fn offers(&self, tag: Tag, within: Duration) -> Option<bool> {
        if let Some(known) = self.known_to_offer(tag) {
            return Some(known);
        }
        let deadline = Instant::now() + within;
        // Whoever comes while somebody asks gets what that one finds.
        let _asking = timeout_at(deadline, self.asking_tags.lock()).await.ok()?;
        if let Some(known) = self.known_to_offer(tag) {
            return Some(known);
        }
        // Whoever is the first to ask finds nobody there, for want of a look.
        let _ = timeout_at(deadline, self.usable()).await;
        // What an endpoint says that may be one of another chain is nobody's word.
        let asked = self.endpoints.iter().filter(|it| it.answers() && it.is_to_be_asked(tag));
        let mut asked: FuturesUnordered<_> =
            asked.map(|endpoint| ask_for_tag(Arc::clone(endpoint), tag)).collect();
        while let Ok(Some(())) = timeout_at(deadline, asked.next()).await {
            if let Some(known) = self.known_to_offer(tag) {
                return Some(known);
            }
        }
        None
    }

    /// The same, by what is remembered.
    fn known_to_offer(&self, tag: Tag) -> Option<bool> {
        let words = self.endpoints.iter().filter_map(|it| it.knows(tag.capability()));
        let words: Vec<bool> = words.collect();
        by_quorum(self.quorum.required(), self.endpoints.len(), &words)
    }
}

/// Asks one endpoint, and remembers what it says.
async fn ask_for_tag(endpoint: Arc<Endpoint>, tag: Tag) {
    let answer = one(&endpoint, &tag_call(tag.name(), With::Hashes)).await;
    endpoint.note_tag(tag, tag_word(answer, tag));
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use serde_json::value::to_raw_value;

    use super::*;

    fn said(code: i64, message: &str) -> Answer {
        Err(CallError::Said { code, message: message.to_owned(), data: None })
    }

    #[test]
    fn hole_37_what_nodes_say_to_a_tag_they_do_not_know() {
        let block = |number: serde_json::Value| {
            Ok(to_raw_value(&json!({ "number": number, "parentHash": "0x1" })).unwrap().into())
        };
        let not_yet = TagWord::NotYet;
        for (answer, tag, expected) in [
            (block(json!("0x7")), Tag::Finalized, TagWord::Has),
            (block(json!("0x0")), Tag::Finalized, not_yet),
            (block(json!("0x0")), Tag::Safe, not_yet),
            // Nodes show their pending block without a number.
            (block(json!(null)), Tag::Pending, TagWord::Has),
            (Ok(serde_json::value::RawValue::NULL.to_owned().into()), Tag::Safe, not_yet),
            // geth 1.8.
            (
                said(-32602, "invalid argument 0: hex string without 0x prefix"),
                Tag::Safe,
                TagWord::Lacks,
            ),
            // geth from 1.10 on, without anybody who tells it.
            (said(-32000, "safe block not found"), Tag::Safe, not_yet),
            (said(-39001, "Unknown block"), Tag::Finalized, not_yet),
            (said(-32000, "Unsupported block tag: finalized"), Tag::Finalized, TagWord::Lacks),
            (said(-32000, "invalid block number"), Tag::Safe, TagWord::Lacks),
            (said(-32603, "Internal error"), Tag::Safe, TagWord::Nothing),
            (said(-32005, "rate limit reached"), Tag::Safe, TagWord::Nothing),
            (Err(CallError::Unreachable), Tag::Safe, TagWord::Nothing),
            (Ok(to_raw_value(&json!([1])).unwrap().into()), Tag::Safe, TagWord::Nothing),
        ] {
            assert_eq!(tag_word(answer.clone(), tag), expected, "{answer:?}");
        }
    }

    #[test]
    fn a_chain_that_has_just_begun_may_get_its_tags_yet() {
        let (now, later) = (Without::default(), Without { lasts: NEVER_COMES, blocks: 999 });
        let long = Without { lasts: NEVER_COMES_TO_THE_YOUNG, blocks: 3 };
        let many = Without { lasts: Duration::from_secs(100), blocks: NEVER_COMES_WITHIN };
        for (word, tag, height, without, expected) in [
            (TagWord::Has, Tag::Safe, None, now, Some(true)),
            (TagWord::Lacks, Tag::Safe, Some(1), now, Some(false)),
            (TagWord::Nothing, Tag::Safe, Some(1_000_000), later, None),
            (TagWord::NotYet, Tag::Safe, Some(100), later, None),
            (TagWord::NotYet, Tag::Safe, Some(1_000_000), now, None),
            (TagWord::NotYet, Tag::Safe, Some(1_000_000), later, Some(false)),
            (TagWord::NotYet, Tag::Finalized, None, later, None),
            // As many blocks, or as much time, as any chain takes.
            (TagWord::NotYet, Tag::Safe, Some(1_100), many, Some(false)),
            (TagWord::NotYet, Tag::Finalized, Some(1_100), many, Some(false)),
            (TagWord::NotYet, Tag::Safe, Some(3), long, Some(false)),
            (TagWord::NotYet, Tag::Finalized, None, long, Some(false)),
            (TagWord::Has, Tag::Safe, Some(1_100), many, Some(true)),
            (TagWord::Nothing, Tag::Safe, Some(1_100), many, None),
            (TagWord::NotYet, Tag::Pending, Some(1), now, Some(false)),
            (TagWord::NotYet, Tag::Pending, Some(0), now, None),
        ] {
            let found = has_tag(word, tag, height, without);
            assert_eq!(found, expected, "{word:?} {tag:?} {height:?} {without:?}");
        }
    }

    #[test]
    fn hole_38_one_endpoint_of_three_decides_nothing_about_a_tag() {
        let (yes, no) = (true, false);
        type Case<'a> = (usize, usize, &'a [bool], Option<bool>);
        let cases: [Case<'_>; 14] = [
            (1, 1, &[], None),
            (1, 1, &[yes], Some(true)),
            (1, 1, &[no], Some(false)),
            (1, 2, &[no], None),
            (1, 2, &[no, no], Some(false)),
            (1, 2, &[no, yes], Some(true)),
            (2, 2, &[yes], None),
            (2, 2, &[no], Some(false)),
            (2, 3, &[no], None),
            (2, 3, &[yes], None),
            (2, 3, &[no, yes], None),
            (2, 3, &[no, yes, yes], Some(true)),
            (2, 3, &[no, no], Some(false)),
            (3, 5, &[no, no, yes, yes], None),
        ];
        for (required, configured, words, expected) in cases {
            assert_eq!(by_quorum(required, configured, words), expected, "{required} {words:?}");
        }
    }
}
