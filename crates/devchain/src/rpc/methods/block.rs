//! Blocks.

use alloy_primitives::U64;

use super::super::error::RpcError;
use super::super::json::{BlockJson, Mined, ReceiptJson};
use super::super::params::Params;
use super::super::view::View;
use crate::node::Node;

/// `eth_blockNumber`
pub(crate) fn number(node: &Node) -> U64 {
    U64::from(View::of(node).head)
}

/// `eth_getBlockByNumber` and `eth_getBlockByHash`. The pending block is the latest one.
pub(crate) fn block(node: &Node, params: &mut Params) -> Result<Option<BlockJson>, RpcError> {
    let (block, full) = (params.block(0)?, params.optional(1)?.unwrap_or(false));
    let view = View::of(node);
    let placed = view.find(block);
    let rules = view.rules;
    drop(view);
    Ok(placed.map(|placed| BlockJson::new(&rules, &placed, full)))
}

/// `eth_getBlockReceipts`
pub(crate) fn receipts(
    node: &Node,
    params: &mut Params,
) -> Result<Option<Vec<ReceiptJson>>, RpcError> {
    let block = params.block(0)?;
    let placed = View::of(node).find(block);
    Ok(placed.map(|placed| Mined::all(&placed).map(ReceiptJson::from).collect()))
}

/// `eth_getBlockTransactionCountByNumber` and `eth_getBlockTransactionCountByHash`
pub(crate) fn transaction_count(node: &Node, params: &mut Params) -> Result<Option<U64>, RpcError> {
    let block = params.block(0)?;
    let placed = View::of(node).find(block);
    Ok(placed.map(|placed| U64::from(placed.block.txs().len())))
}
