//! What gas costs.

use alloy_primitives::{U64, U256};
use serde::Serialize;

use super::super::error::RpcError;
use super::super::params::Params;
use super::super::view::View;
use crate::chain::Block;
use crate::node::Node;

/// What is suggested to leave to whoever makes the block, for each unit of gas: 1 gwei.
pub(crate) const SUGGESTED_TIP: u64 = 1_000_000_000;

/// How many blocks a history has at most.
const LONGEST_HISTORY: u64 = 1024;

/// `eth_gasPrice`
pub(crate) fn gas_price(node: &Node) -> U64 {
    let view = View::of(node);
    U64::from(view.rules.base_fee_after(view.newest()).saturating_add(SUGGESTED_TIP))
}

/// `eth_maxPriorityFeePerGas`
pub(crate) fn tip() -> U64 {
    U64::from(SUGGESTED_TIP)
}

/// The answer to `eth_feeHistory`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct History {
    oldest_block: U64,
    base_fee_per_gas: Vec<U64>,
    gas_used_ratio: Vec<f64>,
    base_fee_per_blob_gas: Vec<U64>,
    blob_gas_used_ratio: Vec<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reward: Option<Vec<Vec<U256>>>,
}

/// `eth_feeHistory`
pub(crate) fn history(node: &Node, params: &mut Params) -> Result<History, RpcError> {
    let (count, newest) = (params.number(0)?, params.block(1)?);
    let percentiles: Option<Vec<f64>> = params.optional(2)?;
    let percentiles = percentiles.filter(|percentiles| !percentiles.is_empty());
    let ascending = |wanted: &Vec<f64>| {
        wanted.iter().all(|one| (0.0..=100.0).contains(one)) && wanted.is_sorted()
    };
    if percentiles.as_ref().is_some_and(|percentiles| !ascending(percentiles)) {
        return Err(RpcError::refused("invalid reward percentile"));
    }
    let view = View::of(node);
    let newest = view.height(newest).ok_or_else(|| {
        RpcError::refused(format!("request beyond head block: head {}", view.head))
    })?;
    let count = count.min(LONGEST_HISTORY).min(newest + 1);
    let oldest = newest + 1 - count;
    let blocks: Vec<&Block> = (oldest..=newest).filter_map(|height| view.block(height)).collect();
    let rules = &view.rules;
    // One more than blocks: that of the block to come.
    let next = blocks.last().map(|last| rules.base_fee_after(last));
    let base_fees = blocks.iter().map(|block| block.base_fee).chain(next);
    let ratio = |block: &&Block| block.gas_used() as f64 / rules.gas_limit as f64;
    let rewards = |wanted: Vec<f64>| blocks.iter().map(|block| rewards(block, &wanted)).collect();
    Ok(History {
        oldest_block: U64::from(oldest),
        base_fee_per_gas: base_fees.map(U64::from).collect(),
        gas_used_ratio: blocks.iter().map(ratio).collect(),
        base_fee_per_blob_gas: vec![U64::from(1); blocks.len() + usize::from(next.is_some())],
        blob_gas_used_ratio: vec![0.0; blocks.len()],
        reward: percentiles.map(rewards),
    })
}

/// The tips below which so many hundredths of a block's gas were used.
fn rewards(block: &Block, percentiles: &[f64]) -> Vec<U256> {
    let base_fee = u128::from(block.base_fee);
    let receipts = block.receipts().iter();
    let mut tips: Vec<(u128, u64)> = receipts
        .map(|receipt| (receipt.effective_gas_price.saturating_sub(base_fee), receipt.gas_used))
        .collect();
    tips.sort_unstable();
    let at = |percentile: &f64| {
        let threshold = (block.gas_used() as f64 * percentile / 100.0) as u64;
        let mut gas = 0;
        let reached = tips.iter().find(|(_, used)| {
            gas += used;
            gas >= threshold
        });
        U256::from(reached.or(tips.last()).map_or(0, |(tip, _)| *tip))
    };
    percentiles.iter().map(at).collect()
}
