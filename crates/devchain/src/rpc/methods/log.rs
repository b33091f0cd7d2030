//! `eth_getLogs`.

use alloy_primitives::{Address, B256, Bloom, BloomInput, Log};
use serde::Deserialize;
use serde_json::Value;

use super::super::error::RpcError;
use super::super::json::{LogJson, Mined};
use super::super::params::{BlockId, Params, block_id};
use super::super::view::View;
use crate::chain::ledger::Placed;
use crate::node::Node;

/// What logs are asked for.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Filter {
    from_block: Option<Value>,
    to_block: Option<Value>,
    block_hash: Option<B256>,
    #[serde(default)]
    address: OneOrMany<Address>,
    #[serde(default)]
    topics: Vec<OneOrMany<B256>>,
}

/// Nothing (which stands for anything), one, or a choice.
#[derive(Debug, Default, Deserialize)]
#[serde(untagged)]
enum OneOrMany<T> {
    #[default]
    Any,
    One(T),
    Many(Vec<Option<T>>),
}

impl<T: PartialEq> OneOrMany<T> {
    fn takes(&self, value: Option<&T>) -> bool {
        match self {
            Self::Any => true,
            Self::One(one) => value == Some(one),
            Self::Many(many) => {
                many.is_empty()
                    || many.iter().any(|one| match one {
                        Some(one) => value == Some(one),
                        None => true,
                    })
            }
        }
    }
}

impl<T: AsRef<[u8]>> OneOrMany<T> {
    /// Whether there can be such a log among those that made this bloom.
    fn may_be_in(&self, bloom: &Bloom) -> bool {
        let may = |value: &T| bloom.contains_input(BloomInput::Raw(value.as_ref()));
        match self {
            Self::Any => true,
            Self::One(one) => may(one),
            Self::Many(many) => {
                many.is_empty() || many.iter().any(|one| one.as_ref().is_none_or(may))
            }
        }
    }
}

impl Filter {
    fn takes(&self, log: &Log) -> bool {
        let topics = log.topics();
        // A position in the filter stands for a topic that is there, even if any one will do.
        self.topics.len() <= topics.len()
            && self.address.takes(Some(&log.address))
            && self.topics.iter().zip(topics).all(|(wanted, topic)| wanted.takes(Some(topic)))
    }

    fn may_be_in(&self, bloom: &Bloom) -> bool {
        self.address.may_be_in(bloom) && self.topics.iter().all(|topic| topic.may_be_in(bloom))
    }
}

/// `eth_getLogs`
pub(crate) fn logs(node: &Node, params: &mut Params) -> Result<Vec<LogJson>, RpcError> {
    let filter: Filter = params.required(0)?;
    let view = View::of(node);
    if let Some(hash) = filter.block_hash {
        if filter.from_block.is_some() || filter.to_block.is_some() {
            let reason = "cannot specify both BlockHash and FromBlock/ToBlock, choose one";
            return Err(RpcError::params(reason));
        }
        let placed = view.find(BlockId::Hash(hash));
        let placed = placed.ok_or_else(|| RpcError::refused("unknown block"))?;
        return Ok(matching(&filter, &placed));
    }
    let height = |value: &Option<Value>| match value {
        None | Some(Value::Null) => Ok(view.head),
        Some(value) => match block_id(value) {
            // Beyond the head there is nothing, now.
            Some(BlockId::Number(number)) => Ok(number),
            Some(block) => view.state_at(block),
            None => Err(RpcError::params("invalid block in the filter")),
        },
    };
    let (from, to) = (height(&filter.from_block)?, height(&filter.to_block)?);
    if from > to {
        return Err(RpcError::params("invalid block range params"));
    }
    let mut found = Vec::new();
    for number in from..=to.min(view.head) {
        let bloom = view.block(number).and_then(|block| block.body.as_ref()).map(|body| body.bloom);
        if bloom.is_some_and(|bloom| filter.may_be_in(&bloom))
            && let Some(placed) = view.placed(number)
        {
            found.extend(matching(&filter, &placed));
        }
    }
    Ok(found)
}

fn matching(filter: &Filter, placed: &Placed) -> Vec<LogJson> {
    let mut found = Vec::new();
    for mined in Mined::all(placed) {
        for (place, log) in mined.receipt().logs.iter().enumerate() {
            if filter.takes(log) {
                found.push(LogJson::at(mined, place));
            }
        }
    }
    found
}
