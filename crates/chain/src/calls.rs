//! Every question asked of a chain node or a signer is counted.

use std::time::Duration;

/// The JSON-RPC methods in use. A closed set, so that a metric's labels are one too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    ChainId,
    BlockNumber,
    BlockByNumber,
    BlockByHash,
    BlockReceipts,
    TransactionCount,
    Balance,
    TransactionByHash,
    TransactionBySenderAndNonce,
    PoolContentFrom,
    TransactionReceipt,
    EstimateGas,
    FeeHistory,
    GasPrice,
    MaxPriorityFee,
    SendRaw,
    Subscribe,
    SignTransaction,
    ClientVersion,
}

/// The names that the label `method` of `stile_chain_calls_total` and `stile_chain_call_seconds`
/// can have.
pub const CALL_METHODS: &[&str] = &[
    "eth_chainId",
    "eth_blockNumber",
    "eth_getBlockByNumber",
    "eth_getBlockByHash",
    "eth_getBlockReceipts",
    "eth_getTransactionCount",
    "eth_getBalance",
    "eth_getTransactionByHash",
    "eth_getTransactionBySenderAndNonce",
    "txpool_contentFrom",
    "eth_getTransactionReceipt",
    "eth_estimateGas",
    "eth_feeHistory",
    "eth_gasPrice",
    "eth_maxPriorityFeePerGas",
    "eth_sendRawTransaction",
    "eth_subscribe",
    "eth_signTransaction",
    "web3_clientVersion",
];

impl Method {
    /// The name on the wire.
    pub(crate) fn name(self) -> &'static str {
        CALL_METHODS[self as usize]
    }
}

/// How a call ended, as far as counting goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallResult {
    Ok,
    Error,
    Timeout,
}

/// Counts one call. A call inside a batch took as long as its batch.
pub(crate) fn record(method: Method, result: CallResult, took: Duration) {
    let result = match result {
        CallResult::Ok => "ok",
        CallResult::Error => "error",
        CallResult::Timeout => "timeout",
    };
    let method = method.name();
    metrics::counter!("stile_chain_calls_total", "method" => method, "result" => result)
        .increment(1);
    metrics::histogram!("stile_chain_call_seconds", "method" => method).record(took.as_secs_f64());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_methods_are_in_the_same_order() {
        assert_eq!(Method::ChainId.name(), "eth_chainId");
        assert_eq!(Method::Balance.name(), "eth_getBalance");
        assert_eq!(Method::TransactionReceipt.name(), "eth_getTransactionReceipt");
        assert_eq!(Method::SignTransaction.name(), "eth_signTransaction");
        assert_eq!(Method::ClientVersion.name(), "web3_clientVersion");
        assert_eq!(Method::ClientVersion as usize + 1, CALL_METHODS.len());
    }
}
