//! What only a development chain can do: blocks and faults on demand.

use std::time::Duration;

use alloy_primitives::{Address, B256, U64, U256};
use serde::Deserialize;
use serde_json::Value;

use super::super::error::RpcError;
use super::super::params::{Params, number};
use crate::node::{Fate, Faults, Lie, LieAnswer, Node, Reorg};
use crate::options::Blocks;

/// How many blocks can be asked for at once.
const MOST_BLOCKS: u64 = 1_000_000;

/// `evm_mine`: one block.
pub(crate) fn evm_mine(node: &Node) -> Result<&'static str, RpcError> {
    node.mine()?;
    Ok("0x0")
}

/// `dev_mine(n)`: so many blocks, one if it is not said. The number of the newest.
pub(crate) fn mine(node: &Node, params: &mut Params) -> Result<U64, RpcError> {
    let count = params.optional_number(0)?.unwrap_or(1);
    if count > MOST_BLOCKS {
        return Err(RpcError::params(format!("at most {MOST_BLOCKS} blocks at once")));
    }
    for _ in 0..count {
        node.mine()?;
    }
    Ok(U64::from(node.ledger().head()))
}

/// The parameter of `dev_reorg`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReorgParams {
    depth: Value,
    #[serde(default)]
    transactions: Transactions,
    length: Option<Value>,
    later: Option<Value>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Transactions {
    #[default]
    Keep,
    Drop,
    Delay,
}

/// `dev_reorg({depth, transactions, length, later})`: replaces the newest blocks. The hash of the
/// new head.
pub(crate) fn reorg(node: &Node, params: &mut Params) -> Result<B256, RpcError> {
    let request: ReorgParams = params.required(0)?;
    let read = |name: &str, value: &Value| {
        let found = number(value).filter(|number| *number <= MOST_BLOCKS);
        found.ok_or_else(|| RpcError::params(format!("{name} is no number of blocks")))
    };
    let depth = read("depth", &request.depth)?;
    if depth == 0 {
        return Err(RpcError::params("depth is 0: nothing would be replaced"));
    }
    let length = request.length.as_ref().map(|length| read("length", length));
    let later = request.later.as_ref().map(|later| read("later", later)).transpose()?;
    let fate = match (request.transactions, later) {
        (Transactions::Keep, later) => Fate::Keep { later: later.unwrap_or(0) },
        (_, Some(_)) => return Err(RpcError::params("later is for transactions that are kept")),
        (Transactions::Drop, None) => Fate::Drop,
        (Transactions::Delay, None) => Fate::Delay,
    };
    let length = length.transpose()?.unwrap_or(depth + 1);
    Ok(node.reorganise(Reorg { depth, length, fate })?)
}

/// `dev_dropTransactions([hash…] | null)`: out of the pool. How many there were.
pub(crate) fn drop_transactions(node: &Node, params: &mut Params) -> Result<U64, RpcError> {
    let hashes: Option<Vec<B256>> = params.optional(0)?;
    let mut pool = node.pool();
    Ok(U64::from(match hashes {
        Some(hashes) => hashes.into_iter().filter(|hash| pool.remove(*hash)).count(),
        None => pool.clear(),
    }))
}

/// The parameter of `dev_delay`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DelayParams {
    methods: Option<Vec<String>>,
    milliseconds: u64,
}

/// `dev_delay({methods, milliseconds})`: answers come late.
pub(crate) fn delay(node: &Node, params: &mut Params) -> Result<bool, RpcError> {
    let request: DelayParams = params.required(0)?;
    node.faults().set_delay(request.methods, Duration::from_millis(request.milliseconds));
    Ok(true)
}

/// `dev_oldHead(depth | null)`: answers as if it were so many blocks behind.
pub(crate) fn old_head(node: &Node, params: &mut Params) -> Result<bool, RpcError> {
    let behind = params.optional_number(0)?.unwrap_or(0);
    node.faults().behind = behind;
    Ok(true)
}

/// `dev_lie({method, result | error, times})`: answers that are made up.
pub(crate) fn lie(node: &Node, params: &mut Params) -> Result<bool, RpcError> {
    let Value::Object(mut request) = params.value(0) else {
        return Err(RpcError::params("{method, result or error, times} is missing"));
    };
    let Some(Value::String(method)) = request.remove("method") else {
        return Err(RpcError::params("method is missing"));
    };
    if method.starts_with("dev_") {
        return Err(RpcError::params("the dev_ methods are always answered honestly"));
    }
    let answer = match (request.remove("result"), request.remove("error")) {
        (Some(result), None) => LieAnswer::Result(result),
        (None, Some(error)) => LieAnswer::Error(error),
        _ => return Err(RpcError::params("either a result or an error")),
    };
    let times = match request.remove("times") {
        None | Some(Value::Null) => None,
        Some(times) => Some(
            number(&times)
                .filter(|times| *times > 0)
                .ok_or_else(|| RpcError::params("times is no number above 0"))?,
        ),
    };
    if let Some((name, _)) = request.iter().next() {
        return Err(RpcError::params(format!("{name} is not known")));
    }
    node.faults().add_lie(Lie { method, answer, times });
    Ok(true)
}

/// `dev_setBalance(address, wei)`
pub(crate) fn set_balance(node: &Node, params: &mut Params) -> Result<bool, RpcError> {
    let (address, balance): (Address, U256) = (params.required(0)?, params.required(1)?);
    node.set_balance(address, balance)?;
    Ok(true)
}

/// `dev_setNonce(address, nonce)`
pub(crate) fn set_nonce(node: &Node, params: &mut Params) -> Result<bool, RpcError> {
    let address: Address = params.required(0)?;
    let nonce = params.optional_number(1)?.ok_or_else(|| RpcError::params("no nonce"))?;
    node.set_nonce(address, nonce)?;
    Ok(true)
}

/// `dev_setBaseFee(wei | null)`: of all blocks from now on, or as it follows from the blocks.
pub(crate) fn set_base_fee(node: &Node, params: &mut Params) -> Result<bool, RpcError> {
    let base_fee = params.optional_number(0)?;
    node.set_base_fee(base_fee);
    Ok(true)
}

/// `dev_setBlocks("instant" | "manual" | milliseconds)`
pub(crate) fn set_blocks(node: &Node, params: &mut Params) -> Result<bool, RpcError> {
    let value = params.value(0);
    let blocks = match (value.as_str(), number(&value)) {
        (Some("instant"), _) => Blocks::Instant,
        (Some("manual"), _) => Blocks::OnDemand,
        (_, Some(period)) if period > 0 => Blocks::Every(Duration::from_millis(period)),
        _ => return Err(RpcError::params("\"instant\", \"manual\" or milliseconds above 0")),
    };
    node.set_blocks(blocks);
    if blocks == Blocks::Instant {
        node.mine_waiting()?;
    }
    Ok(true)
}

/// `dev_honest()`: no delays, no old head, no lies. What is on the chain stays.
pub(crate) fn honest(node: &Node) -> bool {
    *node.faults() = Faults::default();
    true
}
