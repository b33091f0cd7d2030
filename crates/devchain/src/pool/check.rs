//! What is asked of every transaction, whatever else waits.

use alloy::consensus::Transaction;
use alloy_primitives::KECCAK256_EMPTY;
use revm::context_interface::cfg::GasParams;
use revm::primitives::eip3860::MAX_INITCODE_SIZE;

use super::refusal::Refusal;
use crate::chain::evm::FORK;
use crate::chain::state::Account;
use crate::chain::{Rules, Tx};

/// Refuses what this chain could never take, from a sender whose account is like this.
pub(crate) fn check(rules: &Rules, tx: &Tx, sender: &Account) -> Result<(), Refusal> {
    let envelope = &tx.envelope;
    match envelope.chain_id() {
        None => return Err(Refusal::Unprotected),
        Some(have) if have != rules.chain_id => {
            return Err(Refusal::OtherChain { have, want: rules.chain_id });
        }
        Some(_) => {}
    }
    let (gas, fee, tip) = (envelope.gas_limit(), envelope.max_fee_per_gas(), tx.max_tip());
    if gas > rules.gas_limit {
        return Err(Refusal::BlockGas { gas, limit: rules.gas_limit });
    }
    if tip > fee {
        return Err(Refusal::TipAboveFee { tip, fee });
    }
    let size = envelope.input().len();
    if envelope.is_create() && size > MAX_INITCODE_SIZE {
        return Err(Refusal::InitCode { size, limit: MAX_INITCODE_SIZE });
    }
    let needed = GasParams::new_spec(FORK).initial_tx_gas_for_tx(tx.environment(), None);
    if gas < needed.initial_regular_gas {
        return Err(Refusal::IntrinsicGas { gas, needed: needed.initial_regular_gas });
    }
    if gas < needed.floor_gas {
        return Err(Refusal::FloorGas { gas, needed: needed.floor_gas });
    }
    if sender.code_hash != KECCAK256_EMPTY {
        return Err(Refusal::SenderHasCode);
    }
    let nonce = envelope.nonce();
    if nonce == u64::MAX {
        return Err(Refusal::NonceMax(nonce));
    }
    if nonce < sender.nonce {
        return Err(Refusal::NonceTooLow { next: sender.nonce, nonce });
    }
    let cost = tx.cost();
    if cost > sender.balance {
        return Err(Refusal::Funds { balance: sender.balance, cost });
    }
    Ok(())
}
