//! Accounts: what they have, their nonces, code and storage.

use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U64, U256};

use super::super::error::RpcError;
use super::super::params::{BlockId, Params};
use super::super::view::View;
use crate::chain::state::Account;
use crate::node::Node;

fn account(view: &View<'_>, address: Address, block: BlockId) -> Result<Account, RpcError> {
    let height = view.state_at(block)?;
    Ok(view.state.account(address, height).unwrap_or_default())
}

/// `eth_getBalance`
pub(crate) fn balance(node: &Node, params: &mut Params) -> Result<U256, RpcError> {
    let (address, block) = (params.required(0)?, params.block(1)?);
    Ok(account(&View::of(node), address, block)?.balance)
}

/// `eth_getTransactionCount`: with `pending` what waits is counted as well.
pub(crate) fn nonce(node: &Node, params: &mut Params) -> Result<U64, RpcError> {
    let (address, block) = (params.required(0)?, params.block(1)?);
    let view = View::of(node);
    if block == BlockId::Pending {
        // Who is behind has seen the transactions of the blocks that it has not seen.
        let mined = view.account(address).nonce;
        return Ok(U64::from(node.pool().next_nonce(address, mined)));
    }
    Ok(U64::from(account(&view, address, block)?.nonce))
}

/// `eth_getCode`
pub(crate) fn code(node: &Node, params: &mut Params) -> Result<Bytes, RpcError> {
    let (address, block) = (params.required(0)?, params.block(1)?);
    let view = View::of(node);
    let hash = account(&view, address, block)?.code_hash;
    if hash == KECCAK256_EMPTY {
        return Ok(Bytes::new());
    }
    Ok(view.state.code(hash).original_bytes())
}

/// `eth_getStorageAt`
pub(crate) fn storage(node: &Node, params: &mut Params) -> Result<B256, RpcError> {
    let (address, key): (Address, U256) = (params.required(0)?, params.required(1)?);
    let block = params.block(2)?;
    let view = View::of(node);
    let height = view.state_at(block)?;
    Ok(B256::from(view.state.slot((address, key), height)))
}
