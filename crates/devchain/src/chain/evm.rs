//! The EVM with this chain's rules.

use alloy_primitives::U256;
use revm::context::BlockEnv;
use revm::primitives::hardfork::SpecId;
use revm::{Context, MainBuilder, MainContext, MainnetEvm};

use super::block::{BENEFICIARY, Rules};
use super::overlay::Overlay;

/// The fork whose rules hold.
pub(crate) const FORK: SpecId = SpecId::PRAGUE;

pub(crate) type Evm<'a> = MainnetEvm<revm::handler::MainnetContext<Overlay<'a>>>;

/// What code can learn of the block it runs in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Surroundings {
    pub(crate) number: u64,
    pub(crate) timestamp: u64,
    pub(crate) base_fee: u64,
    pub(crate) fork: u64,
}

/// What is checked before a transaction is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checks {
    /// All that a block asks for.
    All,
    /// For calls, which nobody signed: no nonces, and senders may have code. With or without the
    /// base fee.
    Call { base_fee: bool },
}

/// An EVM that reads from, and writes to, this overlay.
pub(crate) fn evm<'a>(
    rules: &Rules,
    overlay: Overlay<'a>,
    surroundings: Surroundings,
    checks: Checks,
) -> Evm<'a> {
    let block = BlockEnv {
        number: U256::from(surroundings.number),
        beneficiary: BENEFICIARY,
        timestamp: U256::from(surroundings.timestamp),
        gas_limit: rules.gas_limit,
        basefee: surroundings.base_fee,
        prevrandao: Some(rules.randomness(surroundings.number, surroundings.fork)),
        ..BlockEnv::default()
    };
    Context::mainnet()
        .with_db(overlay)
        .with_block(block)
        .modify_cfg_chained(|cfg| {
            cfg.set_spec_and_mainnet_gas_params(FORK);
            cfg.chain_id = rules.chain_id;
            if let Checks::Call { base_fee } = checks {
                cfg.disable_nonce_check = true;
                cfg.disable_eip3607 = true;
                cfg.disable_base_fee = !base_fee;
            }
        })
        .build_mainnet()
}
