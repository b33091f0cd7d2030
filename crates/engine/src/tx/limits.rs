//! Requests that ask for more than their chain allows.
//!
//! They are refused before anything is written. What cannot be known at that time, because no endpoint
//! says what the chain asks for or what its blocks have, is seen to when the nonce is bound: prices are
//! cut to the limit then, and a gas limit that no block has room for is refused.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stile_chain::{BlockGasLimit, ChainPool};
use stile_domain::{Lane, Payload, check_gas, gas_limit_for};
use tokio::time::timeout;

use crate::core::Core;
use crate::tx::bind;
use crate::tx::error::TxError;
use crate::tx::track::Track;

/// How long a request waits at most for what the endpoints say. It is taken without their word then.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// What blocks have changes slowly, so it is asked for this often while requests come that need to know.
const ASK_AGAIN_KNOWN: Duration = Duration::from_secs(600);

/// The same while it is not known, so that not every request waits for a silent chain.
const ASK_AGAIN_UNKNOWN: Duration = Duration::from_secs(10);

/// Below this an estimate and its headroom fit into a block of any chain.
const MUCH_GAS: u64 = 4_000_000;

/// Every block has room for a transfer.
const TRANSFER_GAS: u64 = 21_000;

/// The most gas of a chain's blocks, as its endpoints last said.
#[derive(Debug, Default)]
pub(crate) struct BlockGas {
    known: Mutex<Known>,
    /// Whoever has it asks; the others wait for the answer.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Known {
    limit: Option<BlockGasLimit>,
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

impl BlockGas {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fresh(&self) -> Option<Known> {
        Some(*self.known()).filter(Known::is_fresh)
    }

    /// What the endpoints say, or have said before.
    pub(crate) async fn get(&self, pool: &ChainPool) -> Option<BlockGasLimit> {
        if let Some(known) = self.fresh() {
            return known.limit;
        }
        let _turn = self.asking.lock().await;
        if let Some(known) = self.fresh() {
            return known.limit;
        }
        let told = pool.block_gas_limit(ANSWER_WITHIN).await;
        let mut known = self.known();
        *known = Known { limit: told.or(known.limit), asked: Some(Instant::now()) };
        known.limit
    }
}

/// Whether a request states a gas limit that not every block has room for.
pub(crate) fn states_gas(payload: &Payload) -> bool {
    payload.gas_limit.is_some_and(|gas| gas > TRANSFER_GAS)
}

/// The gas limit for an estimate.
pub(crate) async fn gas_limit(track: &Track, estimate: u64) -> u64 {
    let block = match estimate > MUCH_GAS {
        true => track.block_gas.get(&track.pool).await.map(|gas| gas.middle),
        false => None,
    };
    gas_limit_for(estimate, block)
}

/// Refuses a request that states more than is allowed on its chain.
pub(crate) async fn check(core: &Core, lane: Lane, payload: &Payload) -> Result<(), TxError> {
    let Some(track) = core.tracks.get(lane.chain) else { return Ok(()) };
    check_fees(core, track, lane, payload).await?;
    if let Some(gas) = payload.gas_limit.filter(|_| states_gas(payload)) {
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
        let Ok(Ok(quotes)) = timeout(ANSWER_WITHIN, track.ask_quotes()).await else {
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
            assert_eq!(Known { limit, asked }.is_fresh(), is_fresh, "{limit:?} {asked:?}");
        }
    }

    #[test]
    fn a_transfer_needs_no_comparison() {
        let states = |gas_limit| states_gas(&Payload { gas_limit, ..Payload::default() });
        assert!(!states(None) && !states(Some(21_000)) && states(Some(21_001)));
    }
}
