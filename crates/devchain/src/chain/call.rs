//! Calls that change nothing, and how much gas they need.

use alloy::eips::eip2930::AccessList;
use alloy_primitives::{Address, Bytes, TxKind, U256};
use revm::ExecuteEvm;
use revm::context::TxEnv;
use revm::context::result::{EVMError, ExecutionResult, InvalidTransaction, Output};

use super::evm::{Checks, Surroundings, evm};
use super::ledger::Ledger;
use super::overlay::Overlay;

/// What a plain transfer needs.
const TRANSFER_GAS: u64 = 21_000;

/// A call, as a client describes it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Call {
    pub(crate) from: Address,
    pub(crate) to: Option<Address>,
    pub(crate) value: U256,
    pub(crate) data: Bytes,
    pub(crate) gas: Option<u64>,
    /// The price, or the most that is paid (`maxFeePerGas`).
    pub(crate) fee: Option<u128>,
    pub(crate) tip: Option<u128>,
    pub(crate) access_list: AccessList,
}

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallFailure {
    /// The code took everything back, and said this.
    #[error("execution reverted")]
    Reverted(Bytes),
    /// It could not be run, or ended without a result.
    #[error("{0}")]
    Failed(String),
}

/// Runs a call on the state after the block at this height, as if in that block.
pub(crate) fn call(ledger: &Ledger, height: u64, call: &Call) -> Result<Bytes, CallFailure> {
    let gas = call.gas.unwrap_or(u64::MAX).min(ledger.rules.gas_limit);
    match run(ledger, height, call, gas)? {
        ExecutionResult::Success { output, .. } => Ok(match output {
            Output::Call(data) | Output::Create(data, _) => data,
        }),
        ExecutionResult::Revert { output, .. } => Err(CallFailure::Reverted(output)),
        ExecutionResult::Halt { reason, .. } => Err(CallFailure::Failed(halted(&reason))),
    }
}

/// The least gas limit with which a call succeeds.
pub(crate) fn estimate(ledger: &Ledger, height: u64, call: &Call) -> Result<u64, CallFailure> {
    let most = most_gas(ledger, height, call)?;
    if call.data.is_empty() && call.access_list.is_empty() && is_plain(ledger, height, call) {
        let enough = TRANSFER_GAS.min(most);
        if succeeds(ledger, height, call, enough) {
            return Ok(TRANSFER_GAS);
        }
    }
    let used = match run(ledger, height, call, most)? {
        ExecutionResult::Success { gas, .. } => gas.tx_gas_used(),
        ExecutionResult::Revert { output, .. } => return Err(CallFailure::Reverted(output)),
        ExecutionResult::Halt { reason, .. } => {
            use revm::context::result::HaltReason::OutOfGas;
            return Err(CallFailure::Failed(match reason {
                OutOfGas(_) => format!("gas required exceeds allowance ({most})"),
                reason => halted(&reason),
            }));
        }
    };
    // With `high` it succeeds, with `low` it does not: what was used is not enough where some is
    // given back at the end, or held back from calls within.
    let (mut low, mut high) = (used.saturating_sub(1), most);
    let likely = (used.saturating_add(used / 16)).min(most);
    if succeeds(ledger, height, call, likely) {
        high = likely;
    } else {
        low = likely;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if succeeds(ledger, height, call, middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok(high)
}

/// The most gas that may be tried: what was said, what a block has room for, what can be paid.
fn most_gas(ledger: &Ledger, height: u64, call: &Call) -> Result<u64, CallFailure> {
    let said = call.gas.unwrap_or(u64::MAX).min(ledger.rules.gas_limit);
    let Some(fee) = call.fee.filter(|fee| *fee > 0) else { return Ok(said) };
    let account = ledger.state.account(call.from, height).unwrap_or_default();
    let Some(left) = account.balance.checked_sub(call.value) else {
        return Err(CallFailure::Failed("insufficient funds for transfer".to_owned()));
    };
    let payable = left / U256::from(fee);
    Ok(u64::try_from(payable).unwrap_or(u64::MAX).min(said))
}

fn is_plain(ledger: &Ledger, height: u64, call: &Call) -> bool {
    call.to.is_some_and(|to| {
        let account = ledger.state.account(to, height).unwrap_or_default();
        account.code_hash == alloy_primitives::KECCAK256_EMPTY
    })
}

fn succeeds(ledger: &Ledger, height: u64, call: &Call, gas: u64) -> bool {
    run(ledger, height, call, gas).is_ok_and(|result| result.is_success())
}

fn run(
    ledger: &Ledger,
    height: u64,
    call: &Call,
    gas: u64,
) -> Result<ExecutionResult, CallFailure> {
    let Some(block) = ledger.block(height) else {
        return Err(CallFailure::Failed("header not found".to_owned()));
    };
    let surroundings = Surroundings {
        number: height,
        timestamp: block.timestamp,
        base_fee: block.base_fee,
        fork: block.fork,
    };
    let priced = call.fee.is_some_and(|fee| fee > 0);
    let checks = Checks::Call { base_fee: priced };
    let mut evm = evm(&ledger.rules, Overlay::new(ledger, height), surroundings, checks);
    let fee = call.fee.unwrap_or_default();
    let tx = TxEnv {
        tx_type: match (call.tip, call.access_list.is_empty()) {
            (Some(_), _) => 2,
            (None, false) => 1,
            (None, true) => 0,
        },
        caller: call.from,
        gas_limit: gas,
        gas_price: fee,
        kind: call.to.map_or(TxKind::Create, TxKind::Call),
        value: call.value,
        data: call.data.clone(),
        nonce: 0,
        chain_id: Some(ledger.rules.chain_id),
        access_list: call.access_list.clone(),
        gas_priority_fee: call.tip,
        blob_hashes: Vec::new(),
        max_fee_per_blob_gas: 0,
        authorization_list: Vec::new(),
    };
    evm.transact(tx).map(|done| done.result).map_err(|error| {
        CallFailure::Failed(match error {
            EVMError::Transaction(reason) => refused(call, block.base_fee, reason),
            error => error.to_string(),
        })
    })
}

/// Why a call cannot be run, in the words of geth.
fn refused(call: &Call, base_fee: u64, reason: InvalidTransaction) -> String {
    use InvalidTransaction as Reason;
    let from = call.from;
    match reason {
        Reason::LackOfFundForMaxFee { fee, balance } => format!(
            "insufficient funds for gas * price + value: address {from} have {balance} want {fee}"
        ),
        Reason::GasPriceLessThanBasefee => format!(
            "max fee per gas less than block base fee: address {from}, maxFeePerGas: {}, \
             baseFee: {base_fee}",
            call.fee.unwrap_or_default()
        ),
        Reason::PriorityFeeGreaterThanMaxFee => format!(
            "max priority fee per gas higher than max fee per gas: address {from}, \
             maxPriorityFeePerGas: {}, maxFeePerGas: {}",
            call.tip.unwrap_or_default(),
            call.fee.unwrap_or_default()
        ),
        Reason::CallGasCostMoreThanGasLimit { initial_gas, gas_limit } => format!(
            "gas required exceeds allowance ({gas_limit}): intrinsic gas too low, \
             want {initial_gas}"
        ),
        Reason::GasFloorMoreThanGasLimit { gas_floor, gas_limit } => {
            format!("insufficient gas for floor data gas cost: have {gas_limit}, want {gas_floor}")
        }
        Reason::CreateInitCodeSizeLimit => "max initcode size exceeded".to_owned(),
        reason => reason.to_string(),
    }
}

fn halted(reason: &revm::context::result::HaltReason) -> String {
    use revm::context::result::HaltReason as Reason;
    match reason {
        Reason::OutOfGas(_) => "out of gas".to_owned(),
        Reason::OpcodeNotFound | Reason::InvalidFEOpcode => "invalid opcode".to_owned(),
        Reason::InvalidJump => "invalid jump destination".to_owned(),
        Reason::CreateCollision => "contract address collision".to_owned(),
        Reason::CreateContractSizeLimit => "max code size exceeded".to_owned(),
        reason => format!("execution halted: {reason:?}"),
    }
}
