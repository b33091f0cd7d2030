//! What is believed of the endpoint that is followed.
//!
//! New blocks on top of what is known are taken from one endpoint, each the parent of the next, and
//! are compared with the others a moment later. What would take known blocks away, or does not link
//! to them, is taken only once a quorum agrees.

use std::sync::Arc;

use stile_chain::{ChainError, View};
use stile_domain::{B256, Decision, Header, HeaderWindow, SetBack, Verdict};
use tracing::{debug, warn};

use super::evidence::{self, SETTLED};
use super::path::Steps;
use super::{Memory, alarm, reopen, save};
use crate::core::Core;
use crate::tx::track::Track;

/// How many heights are compared in one pass.
const COMPARED: u64 = 50;

/// What there is to agree on before new blocks are taken.
#[derive(Debug, PartialEq, Eq)]
enum Question {
    /// Nothing: they only go on top of what is known.
    Nothing,
    /// They do not link to what is known.
    Leap,
    /// This one takes known blocks away.
    Fork(Header),
    /// Known blocks are taken away, and nothing is put in their place: no chain does that.
    Emptied,
}

fn question(steps: &Steps) -> Question {
    match (steps.leap, steps.above, steps.blocks.first()) {
        (true, _, _) => Question::Leap,
        (false, Some(_), Some(first)) => Question::Fork(first.header),
        (false, Some(_), None) => Question::Emptied,
        (false, None, _) => Question::Nothing,
    }
}

/// Whether the new blocks are taken. What only goes on top of what is known always is.
pub(super) async fn admits(
    track: &Track,
    view: &View,
    window: &HeaderWindow,
    steps: &Steps,
    memory: &mut Memory,
) -> bool {
    let Some(tip) = window.tip() else { return true };
    let question = question(steps);
    if question == Question::Emptied {
        return false;
    }
    if track.pool.quorum().configured() == 1 {
        return true;
    }
    let (height, decision) = match question {
        Question::Nothing => return true,
        Question::Emptied => return false,
        Question::Leap => leap(track, view).await,
        Question::Fork(Header { height, hash, .. }) => {
            let decided = evidence::canonical(track, &[(height, hash)], view.place()).await;
            // Below everything that is known nothing can be compared, and one that is only late
            // looks like a fork: nobody is believed alone.
            let is_below = window.bottom().is_some_and(|bottom| height < bottom);
            match decided.into_iter().next() {
                Some((Decision::Agreed, _))
                    if is_below && !evidence::two_agree(track, height, hash).await =>
                {
                    (height, Decision::Open(Verdict::TooFewVoters))
                }
                Some((decision, _)) => (height, decision),
                None => return false,
            }
        }
    };
    match decision {
        Decision::Agreed => true,
        Decision::Outvoted(_) => false,
        Decision::Open(verdict) => {
            debug!(chain = %track.pool.chain(), height, leap = steps.leap, known = tip.height, why = %verdict,
                  endpoint = view.endpoint(), "new blocks are not taken until the endpoints agree");
            memory.withhold(track, verdict, height);
            false
        }
    }
}

/// What the endpoints say to the block of the followed one at a height that they can have: the
/// newest may not have reached everybody.
async fn leap(track: &Track, view: &View) -> (u64, Decision<B256>) {
    let newest = *view.head();
    let common = track.pool.comparable_height().unwrap_or(newest.height).min(newest.height);
    let height = common.saturating_sub(SETTLED);
    let own = match view.headers(&[height]).await {
        Ok(headers) => headers.into_iter().next().flatten(),
        Err(_) => None,
    };
    let Some(own) = own else {
        view.lacks(format!("block {height} is not shown"));
        return (height, Decision::Open(Verdict::TooFewVoters));
    };
    let decided = evidence::canonical(track, &[(height, own.hash)], view.place()).await;
    match decided.into_iter().next() {
        Some((decision, _)) => (height, decision),
        None => (height, Decision::Open(Verdict::TooFewVoters)),
    }
}

/// Compares what is known with what the other endpoints have, each height once. Whoever is outvoted
/// is set aside, and what was believed of it is read again. Fails if that cannot be done now.
pub(super) async fn compare(
    core: &Arc<Core>,
    track: &Track,
    view: &View,
    memory: &mut Memory,
) -> Result<Compared, ChainError> {
    let quorum = track.pool.quorum();
    if quorum.configured() == 1 {
        return Ok(Compared::Kept);
    }
    let Some(tip) = track.window().tip().copied() else { return Ok(Compared::Kept) };
    let Some(common) = track.pool.comparable_height() else {
        if quorum.required() > 1 {
            memory.withhold(track, Verdict::TooFewVoters, tip.height);
        }
        return Ok(Compared::Kept);
    };
    let newest = common.min(tip.height).saturating_sub(SETTLED);
    let claims: Vec<(u64, B256)> = {
        let window = track.window();
        // Where the newest one is still the same, nothing below it has changed.
        let known = memory.compared.filter(|(height, hash)| window.hash_at(*height) == Some(*hash));
        let lowest = window.bottom().unwrap_or(newest).max(newest.saturating_sub(COMPARED));
        let from = known.map_or(lowest, |(height, _)| lowest.max(height + 1));
        (from..=newest).filter_map(|height| Some((height, window.hash_at(height)?))).collect()
    };
    let decided = evidence::canonical(track, &claims, view.place()).await;
    for ((height, hash), (decision, followed)) in claims.into_iter().zip(decided) {
        match decision {
            Decision::Agreed => {
                memory.compared = Some((height, hash));
                memory.agreed = memory.agreed.max(height);
            }
            Decision::Open(verdict) => {
                memory.withhold(track, verdict, height);
                return Ok(Compared::Kept);
            }
            Decision::Outvoted(other) => {
                warn!(chain = %track.pool.chain(), height, known = %hash, agreed = %other, endpoint = view.endpoint(),
                      "what was followed is outvoted by the other endpoints");
                // Whoever is followed now has what the others have: then this block is not found to
                // be replaced by following it.
                if followed == Some(other) {
                    forget(core, track, height).await?;
                    return Ok(Compared::Forgotten);
                }
                return Ok(Compared::Kept);
            }
        }
    }
    Ok(Compared::Kept)
}

/// What came of comparing what is known with the other endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compared {
    /// What is known stays known.
    Kept,
    /// Some of it has to be read again before anything is concluded.
    Forgotten,
}

/// Forgets what is known from a height on, so that it is read again, and has everything that was
/// found there compared with the chain: what is finished, too. Nothing is forgotten if that cannot be
/// read.
pub(super) async fn forget(core: &Arc<Core>, track: &Track, height: u64) -> Result<(), ChainError> {
    let below = height.saturating_sub(1);
    let dropped: Vec<Header> = track.window().from(height).copied().collect();
    track.replaced(&dropped);
    let lost = reopen(core, track, below, SetBack::default()).await?;
    alarm::raise(core, track, lost).await?;
    let dropped = {
        let mut window = track.window();
        let dropped = window.cut_above(below);
        track.pool.set_known(window.clone());
        dropped
    };
    track.lower_heads(below);
    // It is read again: how much of it is gone is not known before.
    track.come_to(below, SetBack { blocks: 1, is_another: false }, u32::MAX);
    {
        let mut book = track.book();
        let ids: Vec<_> = book.iter().map(|open| open.id).collect();
        for id in ids {
            if let Some(open) = book.get_mut(id) {
                match open.block() {
                    Some((block, _)) if block >= height => open.unverified = true,
                    _ => open.untold_fork |= open.told.is_some_and(|(block, _)| block >= height),
                }
            }
        }
    }
    save(core, track, Vec::new(), dropped).await;
    // It is read again at once.
    track.look.notify_one();
    Ok(())
}

#[cfg(test)]
mod tests {
    use stile_chain::Block;
    use stile_domain::GasRules;

    use super::*;

    #[test]
    fn hole_24_known_blocks_are_not_taken_away_for_nothing() {
        let header = Header { height: 8, hash: B256::repeat_byte(8), parent: B256::repeat_byte(7) };
        let block = Block {
            header,
            transactions: Vec::new(),
            timestamp: 0,
            base_fee: None,
            gas_limit: None,
            rules: GasRules::default(),
        };
        let steps = |leap, above, blocks: &[Block]| {
            question(&Steps { above, blocks: blocks.to_vec(), leap })
        };
        assert_eq!(steps(false, None, std::slice::from_ref(&block)), Question::Nothing);
        assert_eq!(steps(false, None, &[]), Question::Nothing);
        assert_eq!(steps(false, Some(7), std::slice::from_ref(&block)), Question::Fork(header));
        assert_eq!(steps(false, Some(7), &[]), Question::Emptied);
        assert_eq!(steps(true, None, &[block]), Question::Leap);
    }
}
