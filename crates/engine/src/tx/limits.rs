//! Requests that ask for more than their chain allows, or for less gas than they need to begin with.
//!
//! They are refused before anything is written. What cannot be known at that time, because no endpoint
//! says what the chain asks for or what its blocks have, is seen to when the nonce is bound: prices are
//! cut to the limit then, and a gas limit that no block has room for, or that no block would have, is
//! refused.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stile_chain::{BlockGasLimit, BlockTerms, ChainPool};
use stile_domain::{
    GasBelowIntrinsic, GasLimitReached, GasRules, Lane, Payload, check_gas, check_intrinsic,
    gas_limit_for,
};
use tokio::time::timeout;

use crate::core::Core;
use crate::tx::bind;
use crate::tx::error::TxError;
use crate::tx::track::Track;

/// What blocks have changes slowly, so it is asked for this often while requests come that need to know.
const ASK_AGAIN_KNOWN: Duration = Duration::from_secs(600);

/// The same while it is not known, so that not every request waits for a silent chain.
const ASK_AGAIN_UNKNOWN: Duration = Duration::from_secs(10);

/// Below this an estimate and its headroom fit into a block of any chain.
const MUCH_GAS: u64 = 4_000_000;

/// Every block has room for a transfer.
const TRANSFER_GAS: u64 = 21_000;

/// The most gas of a chain's blocks and the rules by which it is counted, as its endpoints last said.
#[derive(Debug)]
pub(crate) struct BlockGas {
    /// How long the endpoints have to answer.
    within: Duration,
    known: Mutex<Known>,
    /// Whoever has it asks; the others wait for the answer.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Known {
    limit: Option<BlockGasLimit>,
    rules: GasRules,
    asked: Option<Instant>,
}

impl Known {
    fn is_fresh(&self) -> bool {
        let lifetime = match self.limit {
            Some(BlockGasLimit { agreed: Some(_), .. }) => ASK_AGAIN_KNOWN,
            // Nobody says so, or one of several alone.
            _ => ASK_AGAIN_UNKNOWN,
        };
        self.asked.is_some_and(|asked| asked.elapsed() < lifetime)
    }
}

impl Known {
    /// What is known once this was told. What too few endpoints say changes no rule.
    fn after(self, told: BlockTerms) -> Self {
        let is_agreed = told.gas.is_some_and(|gas| gas.agreed.is_some());
        Self {
            limit: told.gas.or(self.limit),
            rules: if is_agreed { told.rules } else { self.rules },
            asked: Some(Instant::now()),
        }
    }
}

impl BlockGas {
    pub(crate) fn new(within: Duration) -> Self {
        Self { within, known: Mutex::default(), asking: tokio::sync::Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fresh(&self) -> Option<Known> {
        Some(*self.known()).filter(Known::is_fresh)
    }

    /// The most gas of a block, as the endpoints say or have said before.
    pub(crate) async fn get(&self, pool: &ChainPool) -> Option<BlockGasLimit> {
        self.ask(pool).await.limit
    }

    /// The rules by which gas is counted, as most of the endpoints say or have said before. The price of
    /// call data is found out beside the work, and counts as soon as it is known.
    async fn rules(&self, pool: &ChainPool) -> GasRules {
        let rules = self.ask(pool).await.rules;
        GasRules { has_dear_data: pool.has_dear_data(), ..rules }
    }

    async fn ask(&self, pool: &ChainPool) -> Known {
        if let Some(known) = self.fresh() {
            return known;
        }
        let _turn = self.asking.lock().await;
        if let Some(known) = self.fresh() {
            return known;
        }
        let told = pool.block_terms(self.within).await;
        let mut known = self.known();
        *known = known.after(told);
        *known
    }
}

/// Whether a request states a gas limit that not every block has room for.
pub(crate) fn states_gas(payload: &Payload) -> bool {
    payload.gas_limit.is_some_and(|gas| gas > TRANSFER_GAS)
}

/// Whether a gas limit is enough to begin with, where the chain counts as Ethereum does. What is enough
/// by all rules takes no question.
pub(crate) async fn check_least(
    core: &Core,
    track: &Track,
    payload: &Payload,
    gas: u64,
) -> Result<(), GasBelowIntrinsic> {
    if core.settings.tx.own_gas_rules.contains(&track.pool.chain())
        || check_intrinsic(payload, gas, GasRules::ALL).is_ok()
    {
        return Ok(());
    }
    let rules = track.block_gas.rules(&track.pool).await;
    check_intrinsic(payload, gas, rules)
}

/// What a transaction's gas limit has to be at least: this, or more.
pub(crate) async fn at_least(core: &Core, track: &Track, payload: &Payload, gas: u64) -> u64 {
    check_least(core, track, payload, gas).await.map_or_else(|low| low.least, |()| gas)
}

/// The gas limit for an estimate.
pub(crate) async fn gas_limit(track: &Track, estimate: u64) -> u64 {
    let block = block_of(track, estimate).await.map(|gas| gas.middle);
    gas_limit_for(estimate, block)
}

/// The same for a request that is not taken yet: an error where no block has room for so much.
pub(crate) async fn gas_limit_to_take(
    track: &Track,
    estimate: u64,
) -> Result<u64, GasLimitReached> {
    let block = block_of(track, estimate).await.map(|gas| gas.middle);
    check_gas(estimate, block)?;
    Ok(gas_limit_for(estimate, block))
}

/// The same for one that was taken: an error only where more than half of the endpoints say so.
pub(crate) async fn gas_limit_to_bind(
    track: &Track,
    estimate: u64,
) -> Result<u64, GasLimitReached> {
    let block = block_of(track, estimate).await;
    if let Some(agreed) = block.and_then(|gas| gas.agreed) {
        check_gas(estimate, Some(agreed))?;
    }
    Ok(gas_limit_for(estimate, block.map(|gas| gas.middle)))
}

/// What a block has, where it matters for so much.
async fn block_of(track: &Track, estimate: u64) -> Option<BlockGasLimit> {
    match estimate > MUCH_GAS {
        true => track.block_gas.get(&track.pool).await,
        false => None,
    }
}

/// Refuses a request that states more than is allowed on its chain, or less gas than it needs to begin with.
pub(crate) async fn check(core: &Core, lane: Lane, payload: &Payload) -> Result<(), TxError> {
    let Some(track) = core.tracks.get(lane.chain) else { return Ok(()) };
    check_fees(core, track, lane, payload).await?;
    let Some(gas) = payload.gas_limit else { return Ok(()) };
    check_least(core, track, payload, gas).await?;
    if states_gas(payload) {
        let block = track.block_gas.get(&track.pool).await;
        check_gas(gas, block.map(|gas| gas.middle))?;
    }
    Ok(())
}

async fn check_fees(
    core: &Core,
    track: &Track,
    lane: Lane,
    payload: &Payload,
) -> Result<(), TxError> {
    let is_set = core.settings.tx.fee_limit(lane.chain).is_some();
    // The caller vouches for its price: of two words the higher counts.
    let quotes = track.quotes(bind::fresh_quote());
    let mut ceiling = core.ceiling_by(lane.chain, quotes.as_ref(), true);
    let Err(_) = ceiling.check(payload) else { return Ok(()) };
    if !ceiling.is_known() {
        let within = core.settings.tx.check_within;
        let Ok(Ok(quotes)) = timeout(within, track.ask_quotes()).await else {
            return Ok(());
        };
        ceiling = core.ceiling_by(lane.chain, Some(&quotes), true);
    }
    ceiling.check(payload).map_err(|reached| TxError::FeeLimit { reached, is_set })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hole_42_what_most_say_is_asked_for_less_often_than_what_is_not_known() {
        let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds));
        let told = |agreed| Some(BlockGasLimit { middle: 30, agreed });
        for (limit, asked, is_fresh) in [
            (None, None, false),
            (None, ago(1), true),
            (None, ago(11), false),
            (told(Some(30)), ago(11), true),
            (told(Some(30)), ago(601), false),
            // One endpoint of several says so.
            (told(None), ago(1), true),
            (told(None), ago(11), false),
        ] {
            let known = Known { limit, asked, ..Known::default() };
            assert_eq!(known.is_fresh(), is_fresh, "{limit:?} {asked:?}");
        }
    }

    #[test]
    fn hole_37_what_too_few_endpoints_say_changes_no_rule() {
        let told =
            |agreed, rules| BlockTerms { gas: Some(BlockGasLimit { middle: 30, agreed }), rules };
        let none = GasRules::default();
        let silent = BlockTerms::default();
        let mut known = Known::default();
        for (told, expected) in [
            (silent, none),
            (told(Some(30), GasRules::ALL), GasRules::ALL),
            (told(None, none), GasRules::ALL),
            (silent, GasRules::ALL),
            // A development chain that was started anew.
            (told(Some(30), none), none),
        ] {
            known = known.after(told);
            assert_eq!(known.rules, expected, "{told:?}");
        }
    }

    #[test]
    fn a_transfer_needs_no_comparison() {
        let states = |gas_limit| states_gas(&Payload { gas_limit, ..Payload::default() });
        assert!(!states(None) && !states(Some(21_000)) && states(Some(21_001)));
    }
}
