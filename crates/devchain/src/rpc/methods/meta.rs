//! The chain and the node themselves.

use alloy_primitives::{Address, U64};
use serde::Serialize;

use super::super::view::View;
use crate::accounts;
use crate::node::Node;

/// `web3_clientVersion`
pub(crate) fn client_version() -> String {
    concat!("stile-devchain/v", env!("CARGO_PKG_VERSION")).to_owned()
}

/// `net_version`
pub(crate) fn network(node: &Node) -> String {
    node.ledger().rules.chain_id.to_string()
}

/// `eth_chainId`
pub(crate) fn chain_id(node: &Node) -> U64 {
    U64::from(node.ledger().rules.chain_id)
}

/// `eth_accounts`: those that the chain signs for.
pub(crate) fn accounts() -> Vec<Address> {
    accounts::ALL.iter().map(|account| account.address).collect()
}

/// The answer to `txpool_status`.
#[derive(Debug, Serialize)]
pub(crate) struct PoolStatus {
    pending: U64,
    queued: U64,
}

/// `txpool_status`
pub(crate) fn pool_status(node: &Node) -> PoolStatus {
    let view = View::of(node);
    let status = node.pool().status(|sender| view.account(sender).nonce);
    PoolStatus { pending: U64::from(status.pending), queued: U64::from(status.queued) }
}
