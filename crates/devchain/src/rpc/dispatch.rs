//! Which function answers which method.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::envelope::{Answer, Request};
use super::error::RpcError;
use super::methods::{account, block, call, dev, fee, log, meta, send, transaction};
use super::params::Params;
use crate::node::{LieAnswer, Node};
use crate::options::Blocks;

/// Answers a request, as truthfully as was asked for.
pub(crate) fn answer(node: &Node, request: Request) -> Answer {
    let Request { id, method, params } = request;
    let id = id.unwrap_or_default();
    // Nothing is wrong with these, whatever was asked for: else nobody could make it right again.
    let honest = method.starts_with("dev_");
    let (lie, delay) = if honest {
        (None, std::time::Duration::ZERO)
    } else {
        let mut faults = node.faults();
        (faults.lie(&method), faults.delay(&method))
    };
    let outcome = match lie {
        Some(LieAnswer::Result(value)) => write(&value),
        Some(LieAnswer::Error(error)) => {
            let mut answer = Answer::lie(id, error);
            answer.delay = delay;
            return answer;
        }
        None => params.and_then(|params| dispatch(node, &method, params)),
    };
    let mut answer = Answer::new(id, outcome);
    answer.delay = delay;
    answer
}

/// Whether a method is answered so fast that nobody minds if others wait for it.
pub(crate) fn is_light(node: &Node, method: &str) -> bool {
    match method {
        "eth_sendRawTransaction" => node.blocks() != Blocks::Instant,
        "eth_call"
        | "eth_estimateGas"
        | "eth_getLogs"
        | "eth_sendTransaction"
        | "eth_signTransaction"
        | "eth_feeHistory"
        | "evm_mine" => false,
        _ => !method.starts_with("dev_"),
    }
}

fn dispatch(node: &Node, method: &str, mut params: Params) -> Result<Box<RawValue>, RpcError> {
    let params = &mut params;
    match method {
        "web3_clientVersion" => write(&meta::client_version()),
        "net_version" => write(&meta::network(node)),
        "net_listening" => write(&true),
        "eth_chainId" => write(&meta::chain_id(node)),
        "eth_syncing" => write(&false),
        "eth_accounts" => write(&meta::accounts()),
        "txpool_status" => write(&meta::pool_status(node)),
        "eth_blockNumber" => write(&block::number(node)),
        "eth_getBlockByNumber" | "eth_getBlockByHash" => write(&block::block(node, params)?),
        "eth_getBlockReceipts" => write(&block::receipts(node, params)?),
        "eth_getBlockTransactionCountByNumber" | "eth_getBlockTransactionCountByHash" => {
            write(&block::transaction_count(node, params)?)
        }
        "eth_getTransactionByHash" => write(&transaction::by_hash(node, params)?),
        "eth_getTransactionReceipt" => write(&transaction::receipt(node, params)?),
        "eth_getTransactionByBlockNumberAndIndex" | "eth_getTransactionByBlockHashAndIndex" => {
            write(&transaction::by_place(node, params)?)
        }
        "eth_getBalance" => write(&account::balance(node, params)?),
        "eth_getTransactionCount" => write(&account::nonce(node, params)?),
        "eth_getCode" => write(&account::code(node, params)?),
        "eth_getStorageAt" => write(&account::storage(node, params)?),
        "eth_gasPrice" => write(&fee::gas_price(node)),
        "eth_maxPriorityFeePerGas" => write(&fee::tip()),
        "eth_feeHistory" => write(&fee::history(node, params)?),
        "eth_call" => write(&call::call(node, params)?),
        "eth_estimateGas" => write(&call::estimate(node, params)?),
        "eth_getLogs" => write(&log::logs(node, params)?),
        "eth_sendRawTransaction" => write(&send::raw(node, params)?),
        "eth_sendTransaction" => write(&send::send(node, params)?),
        "eth_signTransaction" => write(&send::sign(node, params)?),
        "evm_mine" => write(&dev::evm_mine(node)?),
        "dev_mine" => write(&dev::mine(node, params)?),
        "dev_reorg" => write(&dev::reorg(node, params)?),
        "dev_dropTransactions" => write(&dev::drop_transactions(node, params)?),
        "dev_delay" => write(&dev::delay(node, params)?),
        "dev_oldHead" => write(&dev::old_head(node, params)?),
        "dev_lie" => write(&dev::lie(node, params)?),
        "dev_setNonce" => write(&dev::set_nonce(node, params)?),
        "dev_setBalance" => write(&dev::set_balance(node, params)?),
        "dev_setBaseFee" => write(&dev::set_base_fee(node, params)?),
        "dev_setBlocks" => write(&dev::set_blocks(node, params)?),
        "dev_honest" => write(&dev::honest(node)),
        _ => Err(RpcError::no_method(method)),
    }
}

fn write<T: Serialize>(result: &T) -> Result<Box<RawValue>, RpcError> {
    to_raw_value(result).map_err(RpcError::internal)
}
