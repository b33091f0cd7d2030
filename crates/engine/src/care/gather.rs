//! Where the facts come from.

use std::sync::Arc;

use stile_domain::{Failover, FeeQuote, Finality, Lane, Nonce, Timestamp};
use stile_store::{Attempt, LedgerOwner, OpenTx};

use super::CareError;
use super::facts::{
    AgreementFacts, AttemptFacts, GoneFacts, HeadFacts, HoldFacts, HolderFacts, LackingFacts,
    LaneFacts, PaceFacts, RestoredFacts, TxFacts, UnestimatedFacts,
};
use crate::core::Core;
use crate::pause;
use crate::reconcile;
use crate::tx::track::Track;
use crate::tx::{bind, replace};

/// So many of the transactions that wait for an estimate are shown.
const MOST_UNESTIMATED: u32 = 20;

pub(super) async fn gather(core: &Arc<Core>, lane: Lane) -> Result<LaneFacts, CareError> {
    // The counts come before the cursor: a count above it is then no accident of timing.
    let track = core.tracks.get(lane.chain);
    let first = match track {
        Some(track) => track.pool.report(lane.signer, None).await,
        None => Vec::new(),
    };
    let counts: Vec<Nonce> = first.iter().filter_map(|said| said.latest).collect();
    let view = core.store.lanes(&[lane]).await?.pop().flatten().ok_or(CareError::NotStarted)?;
    let latest = usual(counts, view.next_nonce);
    let head = match latest {
        Some(latest) if view.next_nonce.is_some_and(|cursor| latest < cursor) => {
            Some(head(core, lane, latest).await?)
        }
        _ => None,
    };
    let newest = head.as_ref().and_then(|head| head.tx.as_ref()?.newest.as_ref());
    let told = head.as_ref().and_then(|head| head.hold.as_ref()?.tx_hash);
    let endpoints = match (track, newest.map(|newest| newest.tx_hash).or(told)) {
        (Some(track), Some(hash)) => track.pool.report(lane.signer, Some(hash)).await,
        _ => first,
    };
    let (mut balance, mut market) = (None, None);
    if let Some(track) = track {
        let balances = track.pool.balances(&[lane.signer]).await.ok();
        balance = balances.and_then(|balances| balances.first().map(ToString::to_string));
        market = match track.quote(bind::fresh_quote()) {
            Some(quote) => Some(quote),
            None => track.ask_quotes().await.ok().map(|quotes| quotes.offered),
        };
    }
    let unestimated = core.store.unestimated(&[lane], MOST_UNESTIMATED).await?;
    let unestimated =
        unestimated.into_iter().map(|tx| UnestimatedFacts { tx_id: tx.id, error: tx.error });
    let receipt_missing = match (track, latest) {
        (Some(track), Some(latest)) => track.book().has_unmined_below(lane, latest),
        _ => false,
    };
    let ceiling = core.ceiling(lane.chain, market.as_ref());
    Ok(LaneFacts {
        chain_id: lane.chain,
        chain_id_text: lane.chain.to_string(),
        signer: lane.signer.to_string(),
        holder: HolderFacts {
            is_this_node: core.is_ours(&view.owner),
            node_id: view.owner.node.0,
            url: view.owner.url,
            fencing_token: view.owner.token.get(),
            lease_seconds_left: view.owner.remaining.as_secs_f64(),
        },
        paused_by_person: view.paused.is_some() && pause::is_by_person(core, lane).await?,
        paused: view.paused,
        elsewhere: view.elsewhere,
        aligned: view.aligned,
        uncompared: core.lanes.slot(lane).uncompared(),
        restored: match view.restored {
            Some(_) => Some(restored_facts(core, lane).await?),
            None => None,
        },
        lacks_synchronous_standby: core.settings.failover == Failover::Synchronous
            && core.store.lacks_synchronous_standby().await?,
        next_nonce: view.next_nonce,
        chain_nonce: latest,
        in_flight: view.in_flight,
        max_in_flight: core.settings.tx.max_in_flight as u64,
        queued: view.queued,
        unestimated: unestimated.collect(),
        can_sign: core.signers.signs(lane),
        signer_trouble: core.signing.trouble(lane),
        balance,
        market_fee_per_gas: market.map(|market| match market {
            FeeQuote::Market { base_fee, .. } => base_fee.to_string(),
            FeeQuote::Legacy { gas_price } => gas_price.to_string(),
        }),
        unquoted: track.and_then(|track| track.unquoted()),
        fee_limit: ceiling.is_known().then(|| ceiling.limit().to_string()),
        head,
        gone: track.and_then(|track| gone(track, lane)),
        endpoints,
        receipt_missing,
        agreement: track.map(|track| agreement(track)),
        pace: track.map(|track| pace(core, track, lane)),
    })
}

/// What is on record in blocks that the chain does not have, as the follower of this node found it.
fn gone(track: &Track, lane: Lane) -> Option<GoneFacts> {
    let gone = track.gone_of(lane);
    let highest_block = gone.iter().map(|(_, height)| *height).max()?;
    let chain_head = track.shown()?;
    Some(GoneFacts { transactions: gone.len(), highest_block, chain_head })
}

/// What the endpoints agree on, as the follower of this node found it.
fn agreement(track: &Track) -> AgreementFacts {
    let (quorum, withheld) = (track.pool.quorum(), track.withheld());
    AgreementFacts {
        configured: quorum.configured(),
        required: quorum.required(),
        withheld: withheld.as_ref().map(|withheld| withheld.verdict.name()),
        withheld_seconds: withheld.as_ref().map(|withheld| withheld.since.elapsed().as_secs_f64()),
        words: withheld.map(|withheld| withheld.words),
    }
}

/// How the chain's blocks come, as the follower of this node sees it, and what of the lane waits for
/// them.
fn pace(core: &Core, track: &Track, lane: Lane) -> PaceFacts {
    let (waiting, finalities, without_receipt) = {
        let book = track.book();
        let shown = book.unmined_of(lane).filter(|open| open.shown_in.is_some()).count();
        let mined = book.of_lane(lane).filter(|open| !open.is_unmined());
        let finalities: Vec<Finality> = mined.map(|open| open.finality).collect();
        let sent = book.unmined_of(lane).next().and_then(|open| open.sent);
        (sent, finalities, u64::try_from(shown).unwrap_or_default())
    };
    let standstill = track.pace.standstill(waiting);
    let count = |is: &dyn Fn(&Finality) -> bool| {
        u64::try_from(finalities.iter().filter(|it| is(it)).count()).unwrap_or_default()
    };
    let lacking = [("safe", Finality::Safe), ("finalized", Finality::Finalized)]
        .into_iter()
        .filter(|(_, finality)| track.lacks(*finality))
        .map(|(tag, finality)| LackingFacts {
            tag,
            waiting: count(&|it| *it == finality),
            is_default: core.settings.tx.finality == finality,
        })
        .filter(|lacking| lacking.waiting > 0 || lacking.is_default);
    PaceFacts {
        silent_seconds: track.pace.silence().map(|silent| silent.as_secs_f64()),
        usual_seconds: track.pace.interval().map(|usual| usual.as_secs_f64()),
        standstill_seconds: standstill.map(|it| it.silent.as_secs_f64()),
        is_long: standstill.is_some_and(|it| it.is_long),
        is_on_demand: track.pace.is_on_demand(),
        unfollowed: track.unfollowed(),
        without_receipt,
        unconfirmed: count(&|_| true),
        unburied: count(&|it| matches!(it, Finality::Confirmations(1..))),
        lacking: lacking.collect(),
    }
}

async fn restored_facts(core: &Arc<Core>, lane: Lane) -> Result<RestoredFacts, CareError> {
    let restoration = super::restored::restoration(core, lane).await?;
    Ok(RestoredFacts {
        open: restoration.mark.is_some_and(|mark| mark.is_open()),
        waiting: restoration.waiting.len(),
        tx_ids: restoration.waiting.iter().take(100).map(|tx| tx.id).collect(),
        unread: restoration.unread.len(),
        begun: restoration.mark.is_some_and(|mark| mark.is_open() && mark.begun),
        unclaimed: restoration.found.iter().filter(|lost| lost.claimed_by.is_none()).count(),
        pooled_at: restoration.pooled.map(|pooled| pooled.endpoint),
    })
}

/// What most endpoints say; the higher one of two.
fn usual(mut counts: Vec<Nonce>, cursor: Option<Nonce>) -> Option<Nonce> {
    counts.sort_unstable();
    let higher = *counts.get(counts.len() / 2)?;
    let lower = counts[(counts.len() - 1) / 2];
    // Of two that differ, one alone says that somebody else uses the key.
    let is_claimed = cursor.is_some_and(|cursor| higher > cursor);
    Some(if is_claimed { lower } else { higher })
}

async fn head(core: &Core, lane: Lane, nonce: Nonce) -> Result<HeadFacts, CareError> {
    let owner = reconcile::first_owner(core, lane, nonce, nonce + 1).await?;
    let nobody = HeadFacts { nonce, hold: None, tx: None };
    Ok(match owner.filter(|owner| owner.nonce == nonce).map(|owner| owner.owner) {
        None => nobody,
        Some(LedgerOwner::Hold(hold)) => {
            let facts = HoldFacts { hold_id: hold.id, status: hold.status, tx_hash: hold.tx_hash };
            HeadFacts { hold: Some(facts), ..nobody }
        }
        Some(LedgerOwner::Tx(id, _)) => {
            let tx = core.store.with_attempts(&[id]).await?.pop();
            let attempts = core.store.attempts(id).await?;
            HeadFacts { tx: tx.map(|open| tx_facts(&open, attempts)), ..nobody }
        }
    })
}

fn tx_facts(open: &OpenTx, mut attempts: Vec<Attempt>) -> TxFacts {
    let tx = &open.tx;
    let count = attempts.len();
    let newest = attempts.pop().map(|newest| AttemptFacts {
        kind: newest.kind,
        tx_hash: newest.hash,
        fees: newest.fees,
        cost: replace::cost(&newest.raw).map(|cost| cost.to_string()),
        said: newest.said,
    });
    let limit = tx.payload.fee_limit.or(tx.payload.stated_price());
    TxFacts {
        tx_id: tx.id,
        state: tx.standing.state,
        sub_state: tx.standing.sub_state,
        // For people; nothing is decided by it.
        age_seconds: Timestamp::now().duration_since(tx.created_at).as_secs_f64().max(0.0),
        sends: tx.sends,
        error: tx.error.clone(),
        fee_limit: limit.map(|limit| limit.to_string()),
        attempts: count,
        newest,
    }
}

#[cfg(test)]
mod tests {
    use super::usual;

    #[test]
    fn hole_23_one_count_of_two_is_no_outside_use() {
        for (counts, cursor, expected) in [
            (vec![], Some(11), None),
            (vec![61], Some(11), Some(61)),
            (vec![61, 11], Some(11), Some(11)),
            (vec![61, 62], Some(11), Some(61)),
            // One of the two is behind.
            (vec![5, 11], Some(11), Some(11)),
            (vec![11, 11, 61], Some(11), Some(11)),
            (vec![11, 61, 61], Some(11), Some(61)),
            (vec![0, 50], None, Some(50)),
        ] {
            assert_eq!(usual(counts.clone(), cursor), expected, "{counts:?}");
        }
    }
}
