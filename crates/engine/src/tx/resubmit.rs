//! Timers: what is not mined is sent again, and offers more after a while.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use stile_domain::{B256, Step, SubState, TxId, TxState};
use tracing::{debug, info};

use crate::core::Core;
use crate::metrics;
use crate::tx::track::Track;
use crate::tx::{bump, funds};

/// How often it is looked whether something is due.
const TICK: Duration = Duration::from_millis(250);

/// How often each lane's lowest unmined nonce is looked for at the endpoints.
const HEAD_CHECK: Duration = Duration::from_secs(10);

pub(crate) async fn run(core: Arc<Core>, track: Arc<Track>) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut heads_checked, mut funds_looked_at) = (Instant::now(), Instant::now());
    let mut told = HashSet::new();
    loop {
        tokio::select! {
            () = core.stopping.cancelled() => return,
            _ = ticks.tick() => {}
        }
        send_due(&core, &track);
        bump::due(&core, &track);
        if funds_looked_at.elapsed() >= funds::LOOK {
            funds_looked_at = Instant::now();
            funds::look(&core, &track, &mut told).await;
        }
        if heads_checked.elapsed() >= HEAD_CHECK {
            heads_checked = Instant::now();
            check_heads(&core, &track).await;
        }
    }
}

/// Hands everything to the submitter whose time has come.
fn send_due(core: &Core, track: &Track) {
    let now = Instant::now();
    let mut due: Vec<TxId> = Vec::new();
    {
        let mut book = track.book();
        let ids: Vec<TxId> = book
            .all_unmined()
            .filter(|open| open.next_send.is_some_and(|at| at <= now))
            .map(|open| open.id)
            .collect();
        for id in ids {
            let Some(open) = book.get(id) else { continue };
            let (lane, sends) = (open.lane, open.sends);
            let submitted = open.standing.state == TxState::Submitted;
            let stale = open.standing.sub_state == Some(SubState::Stale);
            if submitted && !stale {
                let change = book.step(id, Step::WentStale, json!({ "sends": sends }));
                core.recorder.write(lane, change);
                info!(txId = %id, signer = %lane.signer, chain = %lane.chain, sends,
                      "not mined for long: its stored bytes are sent again");
            }
            let limit = core.settings.tx.max_sends;
            if limit > 0 && sends >= limit && submitted {
                if let Some(open) = book.get_mut(id) {
                    open.next_send = None;
                }
                continue;
            }
            metrics::resubmitted(submitted);
            due.push(id);
        }
    }
    core.submit(track, due);
    core.retry(track, now);
}

/// A lane cannot move as long as its lowest nonce is not mined. If no endpoint knows it any more,
/// it is sent again at once.
async fn check_heads(core: &Core, track: &Track) {
    let lowest: Vec<(TxId, B256)> = {
        let book = track.book();
        book.lowest_unmined()
            .filter(|open| open.standing.state == TxState::Submitted)
            .filter(|open| !open.deliveries.all_queued())
            .filter_map(|open| Some((open.id, open.newest()?.hash)))
            .collect()
    };
    if lowest.is_empty() {
        return;
    }
    let hashes: Vec<B256> = lowest.iter().map(|(_, hash)| *hash).collect();
    match track.pool.known(&hashes).await {
        Ok(known) => {
            let forgotten = lowest.iter().zip(known).filter(|(_, known)| !known);
            let forgotten: Vec<TxId> = forgotten.map(|((id, _), _)| *id).collect();
            for id in &forgotten {
                info!(txId = %id, "no endpoint knows it any more: its stored bytes are sent again");
            }
            // What pools dropped they seldom dropped alone.
            let all: Vec<TxId> = {
                let book = track.book();
                let lanes = forgotten.iter().filter_map(|id| book.get(*id).map(|open| open.lane));
                lanes.flat_map(|lane| book.unmined_of(lane).map(|open| open.id)).collect()
            };
            core.submit(track, all);
        }
        Err(error) => debug!(%error, "the endpoints do not say what they know"),
    }
}
