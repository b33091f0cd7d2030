//! On top of which block an endpoint estimates: what is pending, where it can.

use serde_json::{Value, json};

use crate::capability::Capability;
use crate::classify::{self, Refusal};
use crate::rpc::CallError;

/// The block argument of `eth_estimateGas`, the best one first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum EstimateBlock {
    /// What is pending, so that a transaction may rest on those before it.
    #[default]
    Pending,
    /// The newest block.
    Latest,
    /// None: the node takes no such argument.
    Unnamed,
}

impl EstimateBlock {
    /// The best one for a node that is known to take some and not others.
    pub(crate) fn best(pending: Option<bool>, any: Option<bool>) -> Self {
        match (pending, any) {
            (_, Some(false)) => Self::Unnamed,
            (Some(false), _) => Self::Latest,
            _ => Self::Pending,
        }
    }

    /// What to try where the node does not take this one.
    pub(crate) fn next(self) -> Option<Self> {
        match self {
            Self::Pending => Some(Self::Latest),
            Self::Latest => Some(Self::Unnamed),
            Self::Unnamed => None,
        }
    }

    /// What an endpoint has shown that has estimated on this one, where it was asked on `first` and then
    /// on what comes after it. It says nothing of what it was not asked on.
    pub(crate) fn shows(self, first: Self) -> Vec<(Capability, bool)> {
        let (on_pending, on_block) = (Capability::EstimateOnPending, Capability::EstimateOnBlock);
        match (first, self) {
            (Self::Pending, Self::Pending) => vec![(on_pending, true), (on_block, true)],
            (Self::Pending, Self::Latest) => vec![(on_pending, false), (on_block, true)],
            (Self::Pending, Self::Unnamed) => vec![(on_pending, false), (on_block, false)],
            (Self::Latest, Self::Latest) => vec![(on_block, true)],
            (Self::Latest, Self::Unnamed) => vec![(on_block, false)],
            _ => Vec::new(),
        }
    }

    /// What follows from a refusal of an estimate on this one. `can`: the endpoint has shown that it
    /// estimates on what is pending.
    pub(crate) fn after(self, error: &CallError, can: bool) -> After {
        match (self.next(), self) {
            (Some(next), _) if is_about_the_block(error) => After::Next(next),
            (_, Self::Pending) if may_be_had_elsewhere(error, can) => After::Once(Self::Latest),
            _ => After::Stop,
        }
    }

    pub(crate) fn params(self, request: &Value) -> Value {
        match self {
            Self::Pending => json!([request, "pending"]),
            Self::Latest => json!([request, "latest"]),
            Self::Unnamed => json!([request]),
        }
    }
}

/// What follows from a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// The node does not take this block: the next one.
    Next(EstimateBlock),
    /// Nobody knows what it means: this one is tried once, and nothing is learned.
    Once(EstimateBlock),
    /// It is the answer.
    Stop,
}

/// Invalid parameters.
const INVALID_PARAMS: i64 = -32602;

/// What nodes say that do not take the block argument, whatever code they say it with.
const ABOUT_THE_BLOCK: [&str; 6] = [
    "too many arguments",
    "block option",
    "block tag",
    "block parameter",
    "pending block",
    "pending state",
];

/// Whether an error may be about the block argument, and not about the transaction. What a contract
/// says is never about the block: whoever wrote the contract chose the words.
pub(crate) fn is_about_the_block(error: &CallError) -> bool {
    let CallError::Said { code, message, .. } = error else { return false };
    if matches!(classify::refusal(error), Some(Refusal::Reverted { .. })) {
        return false;
    }
    let text = message.to_ascii_lowercase();
    *code == INVALID_PARAMS || ABOUT_THE_BLOCK.iter().any(|phrase| text.contains(phrase))
}

/// Whether an error on what is pending, in words that are not about the block, leaves it open whether the
/// node can estimate on another one. Of one that `can` estimate on what is pending, trouble that passes is
/// waited for: on the newest block a transaction that rests on others has another amount.
fn may_be_had_elsewhere(error: &CallError, can: bool) -> bool {
    match error {
        CallError::Said { .. } if classify::rate_limit(error).is_some() => false,
        CallError::Said { .. } => match classify::refusal(error) {
            Some(Refusal::Unrecognised(_)) => !classify::is_about_a_transaction(error),
            Some(Refusal::Reverted { .. } | Refusal::Refused(_)) => false,
            None => !can,
        },
        CallError::Http(400 | 500) => !can,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hole_37_words_about_the_block_are_told_from_words_about_the_transaction() {
        for (code, message, is_about) in [
            (-32602, "too many arguments, want at most 1", true),
            (
                -32602,
                "invalid argument 1: block option must be a valid 0x-prefixed block hash",
                true,
            ),
            (-32000, "pending block is not available", true),
            (-32000, "Pending state not available", true),
            (-32601, "Unsupported block tag: pending", true),
            (3, "execution reverted: no", false),
            // A contract's words.
            (3, "pending block", false),
            (3, "execution reverted: too many arguments", false),
            (-32000, "execution reverted: block tag", false),
            (-32015, "VM execution error: reverted: pending state", false),
            (-32000, "insufficient funds for transfer", false),
            (-32000, "gas required exceeds allowance (0)", false),
        ] {
            let error = CallError::Said { code, message: message.to_owned(), data: None };
            assert_eq!(is_about_the_block(&error), is_about, "{message}");
        }
        let (message, data) = ("pending block".to_owned(), Some(json!("0x08c379a0").into()));
        assert!(!is_about_the_block(&CallError::Said { code: -32602, message, data }));
        assert!(!is_about_the_block(&CallError::Unreachable));
    }

    #[test]
    fn hole_37_an_estimate_says_nothing_of_blocks_that_were_not_tried() {
        use Capability::{EstimateOnBlock, EstimateOnPending};
        use EstimateBlock::{Latest, Pending, Unnamed};
        for (first, taken, expected) in [
            (Pending, Pending, vec![(EstimateOnPending, true), (EstimateOnBlock, true)]),
            (Pending, Latest, vec![(EstimateOnPending, false), (EstimateOnBlock, true)]),
            (Pending, Unnamed, vec![(EstimateOnPending, false), (EstimateOnBlock, false)]),
            (Latest, Latest, vec![(EstimateOnBlock, true)]),
            (Latest, Unnamed, vec![(EstimateOnBlock, false)]),
            (Unnamed, Unnamed, vec![]),
        ] {
            assert_eq!(taken.shows(first), expected, "{first:?} {taken:?}");
        }
    }

    #[test]
    fn hole_37_after_an_error_on_what_is_pending_that_nobody_knows_the_newest_block_is_tried_once()
    {
        use EstimateBlock::{Latest, Pending, Unnamed};
        let (next, once, stop) = (After::Next(Latest), After::Once(Latest), After::Stop);
        let said =
            |code, message: &str| CallError::Said { code, message: message.to_owned(), data: None };
        for (error, of_another, of_one_that_can) in [
            (said(-32602, "invalid argument 1"), next, next),
            (said(-32000, "the state to come is not kept"), once, once),
            (said(-32601, "method not found for this tag"), once, stop),
            (said(-32603, "Internal error"), once, stop),
            (said(-32000, "header not found"), once, stop),
            (CallError::Http(500), once, stop),
            // Known words about the transaction.
            (said(3, "execution reverted"), stop, stop),
            (said(-32000, "execution reverted: the state to come"), stop, stop),
            (said(-32000, "insufficient funds for transfer"), stop, stop),
            (said(-32000, "gas required exceeds allowance (0)"), stop, stop),
            (said(-32000, "nonce too low"), stop, stop),
            (said(-32000, "nonce too high"), stop, stop),
            (said(-32000, "intrinsic gas too low"), stop, stop),
            (said(-32000, "max fee per gas less than block base fee"), stop, stop),
            // Whoever does not answer, or is asked too often, is not asked twice.
            (said(-32005, "rate limit reached"), stop, stop),
            (CallError::Limited(None), stop, stop),
            (CallError::Http(503), stop, stop),
            (CallError::Unreachable, stop, stop),
            (CallError::Timeout(std::time::Duration::from_secs(3).into()), stop, stop),
        ] {
            assert_eq!(Pending.after(&error, false), of_another, "{error}");
            assert_eq!(Pending.after(&error, true), of_one_that_can, "{error}");
            let on_latest = if is_about_the_block(&error) { After::Next(Unnamed) } else { stop };
            assert_eq!(Latest.after(&error, false), on_latest, "{error}");
            assert_eq!(Unnamed.after(&error, false), stop, "{error}");
        }
    }

    #[test]
    fn each_is_tried_once() {
        let mut tried = vec![EstimateBlock::default()];
        while let Some(next) = tried[tried.len() - 1].next() {
            tried.push(next);
        }
        let params: Vec<Value> = tried.iter().map(|block| block.params(&json!({}))).collect();
        assert_eq!(params, [json!([{}, "pending"]), json!([{}, "latest"]), json!([{}])]);
    }
}
