//! Transactions and their receipts.

use super::super::error::RpcError;
use super::super::json::{Mined, ReceiptJson, TxJson};
use super::super::params::Params;
use super::super::view::View;
use crate::node::Node;

/// `eth_getTransactionByHash`: in a block or in the pool.
pub(crate) fn by_hash(node: &Node, params: &mut Params) -> Result<Option<TxJson>, RpcError> {
    let hash = params.required(0)?;
    let view = View::of(node);
    if let Some((number, index)) = view.place_of(hash)
        && let Some(placed) = view.placed(number)
        && let Some(mined) = Mined::at(&placed, index)
    {
        // Who is behind has not seen the block, but the transaction.
        let seen = view.mined(hash).is_some();
        return Ok(Some(if seen { TxJson::mined(mined) } else { TxJson::pending(mined.tx()) }));
    }
    let waiting = node.pool().get(hash).map(|tx| TxJson::pending(tx));
    Ok(waiting)
}

/// `eth_getTransactionReceipt`
pub(crate) fn receipt(node: &Node, params: &mut Params) -> Result<Option<ReceiptJson>, RpcError> {
    let hash = params.required(0)?;
    let view = View::of(node);
    let Some((number, index)) = view.mined(hash) else { return Ok(None) };
    let placed = view.placed(number);
    drop(view);
    Ok(placed.and_then(|placed| Mined::at(&placed, index).map(ReceiptJson::from)))
}

/// `eth_getTransactionByBlockNumberAndIndex` and `eth_getTransactionByBlockHashAndIndex`
pub(crate) fn by_place(node: &Node, params: &mut Params) -> Result<Option<TxJson>, RpcError> {
    let (block, index) = (params.block(0)?, params.number(1)?);
    let placed = View::of(node).find(block);
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    Ok(placed.and_then(|placed| Mined::at(&placed, index).map(TxJson::mined)))
}
