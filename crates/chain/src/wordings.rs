//! What chain nodes say to `eth_sendRawTransaction`, word for word.

use SendClass::{
    InsufficientFunds, Known, NonceTooHigh, NonceTooLow, Rejected, ReplacementUnderpriced,
    Transient, Underpriced,
};

use crate::SendClass;

/// Refusals of chain nodes and of those who stand in front of them: who says it, what it means, the
/// error's code, and its message; so that a test can play a node of each kind. A class is missing
/// where a node is not known to refuse for that: Erigon and anvil keep transactions for later
/// whatever their nonce, and development chains have no troubles of their own that pass. From zkSync
/// on, comments name the source in which the words were found.
pub const WORDINGS: &[(&str, SendClass, i64, &str)] = &[
    ("geth", Known, -32000, "already known"),
    ("geth", NonceTooLow, -32000, "nonce too low"),
    ("geth", NonceTooLow, -32000, "nonce too low: next nonce 5, tx nonce 4"),
    ("geth", NonceTooLow, -32000, "nonce too low: address 0xAb58…, tx: 4 state: 5"),
    ("geth", NonceTooHigh, -32000, "nonce too high"),
    ("geth", NonceTooHigh, -32000, "gapped-nonce tx from delegated accounts"),
    ("geth", Underpriced, -32000, "transaction underpriced"),
    ("geth", Underpriced, -32000, "transaction underpriced: tip needed 1, tip permitted 0"),
    (
        "geth",
        Underpriced,
        -32000,
        "transaction gas price below minimum: gas tip cap 1, minimum needed 25000000000",
    ),
    (
        "geth",
        Underpriced,
        -32000,
        "max fee per gas less than block base fee: address 0xAb58…, maxFeePerGas: 1, baseFee: 7",
    ),
    ("geth", ReplacementUnderpriced, -32000, "replacement transaction underpriced"),
    (
        "geth",
        ReplacementUnderpriced,
        -32000,
        "replacement transaction underpriced: new tx gas fee cap 1 <= 2 queued",
    ),
    (
        "geth",
        InsufficientFunds,
        -32000,
        "insufficient funds for gas * price + value: balance 0, tx cost 21000, overshot 21000",
    ),
    ("geth", InsufficientFunds, -32000, "insufficient funds for transfer"),
    ("geth", Rejected, -32000, "intrinsic gas too low: gas 20000, minimum needed 21000"),
    ("geth", Rejected, -32000, "exceeds block gas limit"),
    ("geth", Rejected, -32000, "oversized data: transaction size 131073, limit 131072"),
    ("geth", Rejected, -32000, "max initcode size exceeded: code size 49153, limit 49152"),
    ("geth", Rejected, -32000, "invalid sender"),
    ("geth", Rejected, -32000, "nonce has max value: address 0xAb58…, nonce: 18446744073709551615"),
    ("geth", Rejected, -32000, "invalid chain id for signer: have 1 want 31337"),
    ("geth", Rejected, -32000, "tx fee (1.50 ether) exceeds the configured cap (1.00 ether)"),
    (
        "geth",
        Rejected,
        -32000,
        "max priority fee per gas higher than max fee per gas: address 0xAb58…",
    ),
    ("geth", Rejected, -32000, "only replay-protected (EIP-155) transactions allowed over RPC"),
    ("geth", Transient, -32000, "txpool is full"),
    ("geth", Transient, -32000, "in-flight transaction limit reached for delegated accounts"),
    ("geth", Transient, -32000, "future transaction tries to replace pending"),
    ("geth", Transient, -32000, "header not found"),
    ("geth", Transient, -32003, "response too large"),
    ("geth", Transient, -32002, "request timed out"),
    ("geth", Transient, -32000, "address already reserved"),
    ("Erigon", Known, -32000, "already known"),
    ("Erigon", Known, -32000, "existing txn with same hash"),
    ("Erigon", Known, -32000, "INTERNAL_ERROR: existing tx with same hash"),
    ("Erigon", Known, -32000, "ALREADY_EXISTS: already known"),
    ("Erigon", NonceTooLow, -32000, "INTERNAL_ERROR: nonce too low"),
    ("Erigon", Underpriced, -32000, "underpriced"),
    ("Erigon", Underpriced, -32000, "fee too low"),
    ("Erigon", ReplacementUnderpriced, -32000, "could not replace existing tx"),
    ("Erigon", ReplacementUnderpriced, -32000, "INTERNAL_ERROR: could not replace existing tx"),
    ("Erigon", InsufficientFunds, -32000, "INTERNAL_ERROR: insufficient funds"),
    ("Erigon", Rejected, -32000, "IntrinsicGas"),
    ("Erigon", Rejected, -32000, "initcode too large"),
    ("Erigon", Transient, -32000, "pending sub-pool is full"),
    ("Erigon", Transient, -32000, "baseFee sub-pool is full"),
    ("Nethermind", Known, -32010, "AlreadyKnown"),
    ("Nethermind", Known, -32010, "already known"),
    ("Nethermind", NonceTooLow, -32010, "OldNonce, Current nonce: 5, nonce of rejected tx: 4."),
    ("Nethermind", NonceTooLow, -32010, "nonce too low"),
    ("Nethermind", NonceTooHigh, -32010, "NonceGap, Future nonce. Expected nonce: 5"),
    ("Nethermind", NonceTooHigh, -32010, "NonceTooFarInFuture"),
    ("Nethermind", NonceTooHigh, -32010, "nonce too far in future"),
    ("Nethermind", NonceTooHigh, -32010, "nonce too high"),
    ("Nethermind", Underpriced, -32010, "FeeTooLow, MaxFeePerGas too low. MaxFeePerGas: 1"),
    ("Nethermind", Underpriced, -32010, "FeeTooLowToCompete"),
    ("Nethermind", Underpriced, -32010, "transaction underpriced"),
    ("Nethermind", ReplacementUnderpriced, -32010, "ReplacementNotAllowed"),
    ("Nethermind", ReplacementUnderpriced, -32010, "replacement transaction underpriced"),
    (
        "Nethermind",
        InsufficientFunds,
        -32010,
        "InsufficientFunds, Account balance: 0, cumulative cost: 21000",
    ),
    ("Nethermind", InsufficientFunds, -32010, "insufficient funds for gas * price + value"),
    ("Nethermind", Rejected, -32010, "GasLimitExceeded, Gas limit: 1, gas limit of rejected tx: 2"),
    ("Nethermind", Rejected, -32010, "SenderIsContract"),
    ("Nethermind", Rejected, -32010, "Invalid, InvalidTxSignature: Signature is invalid."),
    ("Nethermind", Rejected, -32010, "gas limit reached"),
    ("Nethermind", Rejected, -32010, "sender not an eoa"),
    ("Nethermind", Transient, -32010, "node is syncing"),
    ("Besu", Known, -32000, "Known transaction"),
    ("Besu", NonceTooLow, -32001, "Nonce too low"),
    ("Besu", NonceTooHigh, -32006, "Nonce too high"),
    ("Besu", NonceTooHigh, -32000, "Transaction nonce is too distant from current sender nonce"),
    ("Besu", Underpriced, -32009, "Gas price below configured minimum gas price"),
    ("Besu", Underpriced, -32009, "Gas price below current base fee"),
    ("Besu", ReplacementUnderpriced, -32000, "Replacement transaction underpriced"),
    ("Besu", InsufficientFunds, -32004, "Upfront cost exceeds account balance"),
    (
        "Besu",
        InsufficientFunds,
        -32004,
        "transaction up-front cost 0x10 exceeds transaction sender account balance 0x5",
    ),
    ("Besu", Rejected, -32002, "Invalid signature"),
    ("Besu", Rejected, -32003, "Intrinsic gas exceeds gas limit"),
    ("Besu", Rejected, -32005, "Transaction gas limit exceeds block gas limit"),
    ("Besu", Rejected, -32007, "Sender account not authorized to send transactions"),
    ("Besu", Rejected, -32000, "Transaction fee cap exceeded"),
    ("Besu", Transient, -32008, "Initial sync is still in progress"),
    ("Reth", Known, -32000, "already known"),
    ("Reth", NonceTooLow, -32000, "nonce too low: next nonce 5, tx nonce 4"),
    ("Reth", NonceTooHigh, -32000, "nonce too high"),
    ("Reth", Underpriced, -32000, "transaction underpriced"),
    ("Reth", Underpriced, -32000, "max fee per gas less than block base fee"),
    ("Reth", ReplacementUnderpriced, -32000, "replacement transaction underpriced"),
    (
        "Reth",
        InsufficientFunds,
        -32003,
        "insufficient funds for gas * price + value: have 0 want 21000",
    ),
    ("Reth", Rejected, -32003, "sender not an eoa"),
    ("Reth", Rejected, -32000, "exceeds block gas limit"),
    ("Reth", Transient, -32003, "txpool is full"),
    ("Reth", Transient, -32000, "address already reserved"),
    ("anvil", Known, -32003, "transaction already imported"),
    ("anvil", NonceTooLow, -32003, "nonce too low"),
    ("anvil", Underpriced, -32003, "max fee per gas less than block base fee"),
    ("anvil", ReplacementUnderpriced, -32003, "replacement transaction underpriced"),
    ("anvil", InsufficientFunds, -32003, "Insufficient funds for gas * price + value"),
    ("anvil", Rejected, -32000, "intrinsic gas too low"),
    ("anvil", Rejected, -32003, "invalid chain id for signer"),
    ("anvil", Rejected, -32003, "sender not an eoa"),
    ("Hardhat", Known, -32000, "Known transaction: 0x88df…"),
    ("Hardhat", NonceTooLow, -32000, "Nonce too low. Expected nonce to be 5 but got 4."),
    (
        "Hardhat",
        NonceTooHigh,
        -32000,
        "Nonce too high. Expected nonce to be 4 but got 6. Note that transactions can't be queued when automining.",
    ),
    (
        "Hardhat",
        Underpriced,
        -32000,
        "Transaction maxFeePerGas (1) is too low for the next block, which has a baseFeePerGas of 875000000",
    ),
    (
        "Hardhat",
        ReplacementUnderpriced,
        -32000,
        "Replacement transaction underpriced. A gasPrice/maxFeePerGas of at least 11 is necessary to replace the existing transaction with nonce 0.",
    ),
    (
        "Hardhat",
        InsufficientFunds,
        -32000,
        "Sender doesn't have enough funds to send tx. The max upfront cost is: 2 and the sender's balance is: 1.",
    ),
    (
        "Hardhat",
        Rejected,
        -32000,
        "Transaction gas limit is 60000001 and exceeds block gas limit of 60000000",
    ),
    (
        "ganache",
        NonceTooLow,
        -32000,
        "the tx doesn't have the correct nonce. account has nonce of: 5 tx has nonce of: 4",
    ),
    (
        "EthereumJS",
        ReplacementUnderpriced,
        -32603,
        "replacement gas too low, got tip 1, min: 2, got fee 1, min: 2",
    ),
    ("OpenEthereum", Known, -32010, "Transaction with the same hash was already imported."),
    (
        "OpenEthereum",
        ReplacementUnderpriced,
        -32010,
        "Transaction gas price is too low. There is another transaction with same nonce in the queue. Try increasing the gas price or incrementing the nonce.",
    ),
    (
        "zkSync",
        Known,
        3,
        "known transaction. transaction with hash 0x88df… is already in the system",
    ),
    ("zkSync", NonceTooLow, 3, "nonce too low. allowed nonce range: 5 - 55, actual: 4"),
    // matter-labs/zksync-era: core/node/api_server/src/tx_sender/result.rs, SubmitTxError.
    ("zkSync", NonceTooHigh, 3, "nonce too high. allowed nonce range: 5 - 55, actual: 60"),
    ("zkSync", Underpriced, 3, "max fee per gas less than block base fee"),
    (
        "zkSync",
        InsufficientFunds,
        3,
        "insufficient funds for gas + value. balance: 0, fee: 21000, value: 1",
    ),
    ("zkSync", InsufficientFunds, 3, "not enough balance to cover the fee. error message: …"),
    ("zkSync", Rejected, 3, "exceeds block gas limit"),
    ("zkSync", Rejected, 3, "intrinsic gas too low"),
    ("zkSync", Rejected, 3, "max priority fee per gas higher than max fee per gas"),
    ("zkSync", Rejected, 3, "invalid sender. can't start a transaction from a non-account"),
    ("zkSync", Rejected, 3, "contract deployer address 0xAb58… is not in the allow list"),
    ("zkSync", Transient, 3, "insertion of another transaction with the same nonce is in progress"),
    ("zkSync", Transient, 3, "server shutting down"),
    // cometbft/cometbft: mempool/errors.go. Under all chains below up to Sei.
    ("CometBFT", Known, -32000, "tx already exists in cache"),
    ("CometBFT", Rejected, -32000, "Tx too large. Max size is 1048576, but got 1048577"),
    (
        "CometBFT",
        Transient,
        -32000,
        "mempool is full: number of txs 5000 (max: 5000), total txs bytes 1 (max: 2)",
    ),
    // cosmos/cosmos-sdk: types/errors/errors.go, ABCI codes 19, 5, 13, 20 and 11.
    ("Cosmos SDK", Known, -32000, "tx already in mempool"),
    ("Cosmos SDK", InsufficientFunds, -32000, "insufficient funds"),
    ("Cosmos SDK", Underpriced, -32000, "insufficient fee"),
    ("Cosmos SDK", Transient, -32000, "mempool is full"),
    ("Cosmos SDK", Rejected, -32000, "out of gas"),
    ("Cosmos SDK", Rejected, -32000, "tx too large"),
    // evmos/ethermint: app/ante/eth.go, mempool.go, fees.go; Evmos, Kava and others are built on it.
    ("Ethermint", NonceTooLow, -32000, "invalid nonce; got 4, expected 5: invalid sequence"),
    ("Ethermint", NonceTooHigh, -32000, "invalid nonce; got 6, expected 5: invalid sequence"),
    (
        "Ethermint",
        InsufficientFunds,
        -32000,
        "sender balance < tx cost (0aphoton < 21000aphoton): insufficient funds",
    ),
    ("Ethermint", Underpriced, -32000, "insufficient fees; got: 1 required: 2: insufficient fee"),
    (
        "Ethermint",
        Underpriced,
        -32000,
        "provided fee < minimum global fee (1 < 2). Please increase the priority tip (for EIP-1559 txs) or the gas prices (for access list or legacy txs): insufficient fee",
    ),
    (
        "Ethermint",
        Rejected,
        -32000,
        "gas limit too low: 20000 (gas limit) < 21000 (intrinsic gas): out of gas",
    ),
    (
        "Ethermint",
        Rejected,
        -32000,
        "the sender is not EOA: address <0xAb58…>, codeHash <0x88df…>: invalid type",
    ),
    (
        "Ethermint",
        Rejected,
        -32000,
        "only replay-protected (EIP-155) transactions allowed over RPC",
    ),
    // crypto-org-chain/ethermint: ante/eth.go. Cronos.
    (
        "Cronos",
        Underpriced,
        -32000,
        "max fee per gas less than block base fee (1 < 7): insufficient fee",
    ),
    (
        "Cronos",
        Rejected,
        -32000,
        "tx gas (60000001) exceeds block gas limit (60000000): out of gas",
    ),
    // cosmos/evm: mempool/errors.go, ante/evm/fee_checker.go.
    ("Cosmos EVM", NonceTooLow, -32000, "tx nonce is lower than account nonce"),
    ("Cosmos EVM", NonceTooHigh, -32000, "tx nonce is higher than account nonce"),
    (
        "Cosmos EVM",
        Underpriced,
        -32000,
        "gas prices too low, got: 1aatom required: 2aatom. Please retry using a higher gas price or a higher fee: insufficient fee",
    ),
    ("Cosmos EVM", Transient, -32000, "queue full"),
    // sei-protocol/sei-chain: evmrpc/send.go puts an empty word before what the SDK says;
    // x/evm/ante/sig.go does not say whether a nonce is too low or too high, so it is tried again.
    ("Sei", Known, -32000, ": tx already in mempool"),
    ("Sei", NonceTooHigh, -32000, ": incorrect account sequence"),
    ("Sei", Underpriced, -32000, ": insufficient fee"),
    ("Sei", InsufficientFunds, -32000, ": insufficient funds"),
    ("Sei", Transient, -32000, ": mempool is full"),
    // OffchainLabs/nitro: execution/gethexec/tx_pre_checker.go, sequencer.go, forwarder.go.
    ("Arbitrum", NonceTooLow, -32000, "nonce too low: address 0xAb58…, tx: 4 state: 5"),
    ("Arbitrum", NonceTooHigh, -32000, "nonce too high: address 0xAb58…, tx: 6 state: 5"),
    (
        "Arbitrum",
        Underpriced,
        -32000,
        "max fee per gas less than block base fee: address 0xAb58…, maxFeePerGas: 1 baseFee: 7",
    ),
    (
        "Arbitrum",
        InsufficientFunds,
        -32000,
        "insufficient funds for gas * price + value: address 0xAb58… have 0 want 21000",
    ),
    ("Arbitrum", Rejected, -32000, "intrinsic gas too low"),
    ("Arbitrum", Rejected, -32000, "transaction type not supported"),
    ("Arbitrum", Rejected, -32000, "transaction sender is not on the whitelist"),
    ("Arbitrum", Transient, -32000, "sequencer temporarily not available"),
    ("Arbitrum", Transient, -32000, "context deadline exceeded"),
    (
        "Arbitrum",
        Transient,
        -32000,
        "failed to publish transaction to any of the forwarding targets",
    ),
    (
        "Arbitrum",
        Transient,
        -32000,
        "currently not accepting transactions due to expected surplus being below threshold",
    ),
    // ethereum-optimism/op-geth: core/txpool/errors.go, validation.go; the last one is an OP-Stack error
    // of core: a message from another chain that is not to be trusted yet.
    ("Optimism", Known, -32000, "already known"),
    ("Optimism", NonceTooLow, -32000, "nonce too low: next nonce 5, tx nonce 4"),
    ("Optimism", Underpriced, -32000, "transaction underpriced: tip needed 1, tip permitted 0"),
    ("Optimism", ReplacementUnderpriced, -32000, "replacement transaction underpriced"),
    (
        "Optimism",
        InsufficientFunds,
        -32000,
        "insufficient funds for gas * price + value: balance 0, tx cost 21000, overshot 21000",
    ),
    ("Optimism", Rejected, -32000, "exceeds block gas limit"),
    ("Optimism", Rejected, -32000, "exceeds maximum per-transaction gas limit"),
    ("Optimism", Transient, -32000, "account limit exceeded: pooled 16 txs"),
    ("Optimism", Transient, -32000, "transaction filtered out"),
    // maticnetwork/bor: core/txpool/validation.go, legacypool/legacypool.go; the words of the cap are
    // go-ethereum's.
    ("Polygon", NonceTooLow, -32000, "nonce too low: next nonce 5, tx nonce 4"),
    ("Polygon", NonceTooHigh, -32000, "gapped-nonce tx from delegated accounts"),
    (
        "Polygon",
        Underpriced,
        -32000,
        "transaction gas price below minimum: gas tip cap 1, minimum needed 25000000000",
    ),
    ("Polygon", Rejected, -32000, "transaction gas limit too high (cap: 33554432, tx: 33554433)"),
    (
        "Polygon",
        Rejected,
        -32000,
        "insufficient gas for floor data gas cost: gas 21000, minimum needed 22000",
    ),
    ("Polygon", Transient, -32000, "txpool is full"),
    ("Polygon", Transient, -32000, "authority already reserved"),
    // bnb-chain/bsc: core/txpool/errors.go, validation.go.
    ("BNB", Known, -32000, "already known"),
    ("BNB", NonceTooLow, -32000, "nonce too low: next nonce 5, tx nonce 4"),
    ("BNB", Underpriced, -32000, "transaction underpriced"),
    ("BNB", ReplacementUnderpriced, -32000, "replacement transaction underpriced"),
    ("BNB", Rejected, -32000, "sender or to in black list"),
    ("BNB", Rejected, -32000, "exceeds block gas limit"),
    ("BNB", Transient, -32000, "account limit exceeded: pooled 16 txs"),
    ("BNB", Transient, -32000, "future transaction tries to replace pending"),
    // ava-labs/coreth and ava-labs/subnet-evm: core/txpool/errors.go, validation.go.
    ("Avalanche", Known, -32000, "already known"),
    ("Avalanche", NonceTooLow, -32000, "nonce too low: address 0xAb58… next nonce 5, tx nonce 4"),
    (
        "Avalanche",
        Underpriced,
        -32000,
        "transaction underpriced: address 0xAb58… have gas fee cap (1) < pool minimum fee cap (25000000000)",
    ),
    ("Avalanche", ReplacementUnderpriced, -32000, "replacement transaction underpriced"),
    (
        "Avalanche",
        InsufficientFunds,
        -32000,
        "insufficient funds for gas * price + value: address 0xAb58… balance 0, tx cost 21000, overshot 21000",
    ),
    (
        "Avalanche",
        Rejected,
        -32000,
        "exceeds block gas limit: tx gas (15000001) > current max gas (15000000)",
    ),
    (
        "Avalanche",
        Rejected,
        -32000,
        "intrinsic gas too low: address 0xAb58… needed 21000, allowed 20000",
    ),
    (
        "Avalanche",
        Rejected,
        -32000,
        "cannot issue transaction from non-allow listed address: 0xAb58…",
    ),
    ("Avalanche", Transient, -32000, "account limit exceeded: pooled 16 txs"),
    ("Infura", Transient, -32005, "daily request count exceeded, request rate limited"),
    ("Alchemy", Transient, 429, "Your app has exceeded its compute units per second capacity."),
    ("a proxy", Transient, -32000, "upstream connect error or disconnect/reset before headers"),
    ("a proxy", Transient, -32000, "rpc error: code = Unavailable desc = connection error"),
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_client_has_its_words_for_what_it_refuses() {
        let said: HashSet<_> =
            WORDINGS.iter().map(|(client, class, ..)| (*client, *class)).collect();
        for client in ["geth", "Erigon", "Nethermind", "Besu", "Reth", "anvil", "Hardhat"] {
            for class in [
                Known,
                NonceTooLow,
                NonceTooHigh,
                Underpriced,
                ReplacementUnderpriced,
                InsufficientFunds,
                Rejected,
                Transient,
            ] {
                let has_none = matches!(
                    (client, class),
                    ("Erigon" | "anvil", NonceTooHigh) | ("anvil" | "Hardhat", Transient)
                );
                assert_ne!(said.contains(&(client, class)), has_none, "{client}: {class:?}");
            }
        }
        assert!(WORDINGS.iter().all(|(_, class, ..)| *class != SendClass::Accepted));
    }
}
