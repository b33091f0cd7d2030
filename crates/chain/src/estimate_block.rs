//! On top of which block an endpoint estimates: what is pending, where it can.

use serde_json::{Value, json};

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

    pub(crate) fn params(self, request: &Value) -> Value {
        match self {
            Self::Pending => json!([request, "pending"]),
            Self::Latest => json!([request, "latest"]),
            Self::Unnamed => json!([request]),
        }
    }
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

/// Whether an error may be about the block argument, and not about the transaction.
pub(crate) fn is_about_the_block(error: &CallError) -> bool {
    let CallError::Said { code, message, .. } = error else { return false };
    let text = message.to_ascii_lowercase();
    *code == INVALID_PARAMS || ABOUT_THE_BLOCK.iter().any(|phrase| text.contains(phrase))
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
            (-32000, "insufficient funds for transfer", false),
            (-32000, "gas required exceeds allowance (0)", false),
        ] {
            let error = CallError::Said { code, message: message.to_owned(), data: None };
            assert_eq!(is_about_the_block(&error), is_about, "{message}");
        }
        assert!(!is_about_the_block(&CallError::Unreachable));
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
