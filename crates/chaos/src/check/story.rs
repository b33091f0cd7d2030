//! Everything about one transaction, one nonce or one hash, in the order of time.

use std::collections::BTreeSet;

use super::About;
use crate::evidence::{Answer, Ask, Evidence, Micros};

/// How much before and after is told of what surrounds a story.
const MARGIN: Micros = 5_000_000;

/// Lines for people: requests, events, attempts, bytes on the wire, blocks.
pub fn story(evidence: &Evidence, about: &About) -> String {
    let cast = Cast::of(evidence, about);
    let mut lines: Vec<(Micros, String)> = Vec::new();
    calls(evidence, &cast, &mut lines);
    records(evidence, &cast, &mut lines);
    outside(evidence, &cast, &mut lines);
    around(evidence, &cast, &mut lines);
    lines.sort_by_key(|(at, _)| *at);
    let mut text = format!("about {:?} {:?} {:?}\n", cast.txs, cast.nonces, cast.hashes);
    for (at, line) in lines {
        text.push_str(&format!("  {} {line}\n", clock(at)));
    }
    for row in &evidence.nonces {
        if cast.nonces.contains(&(row.signer.clone(), row.nonce)) {
            text.push_str(&format!("  at the end: {row:?}\n"));
        }
    }
    for tx in evidence.txs.iter().filter(|tx| cast.txs.contains(&tx.id)) {
        text.push_str(&format!("  at the end: {tx:?}\n"));
    }
    text
}

/// The time of a day, which is as much as a reader needs.
fn clock(at: Micros) -> String {
    let (seconds, micros) = (at.div_euclid(1_000_000), at.rem_euclid(1_000_000));
    let (hours, minutes) = (seconds / 3_600 % 24, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{micros:06}", seconds % 60)
}

/// Who plays a part.
struct Cast {
    txs: BTreeSet<String>,
    nonces: BTreeSet<(String, u64)>,
    hashes: BTreeSet<String>,
}

impl Cast {
    fn of(evidence: &Evidence, about: &About) -> Self {
        let mut cast = Self {
            txs: about.tx_id.iter().cloned().collect(),
            nonces: about.nonce.iter().cloned().collect(),
            hashes: about.hashes.iter().cloned().collect(),
        };
        // From a hash to its transaction, from there to its nonce, and from that to all it met.
        let attempts = || evidence.attempts.iter().chain(&evidence.lost_attempts);
        for attempt in attempts().filter(|it| cast.hashes.contains(&it.hash)) {
            cast.txs.insert(attempt.tx_id.clone());
        }
        for place in evidence.places().filter(|place| cast.hashes.contains(&place.mined.hash)) {
            cast.nonces.insert((place.mined.from.clone(), place.mined.nonce));
        }
        for tx in evidence.txs.iter().filter(|tx| cast.txs.contains(&tx.id)) {
            cast.nonces.extend(tx.nonce.map(|nonce| (tx.signer.clone(), nonce)));
        }
        for tx in &evidence.txs {
            let nonce = tx.nonce.map(|nonce| (tx.signer.clone(), nonce));
            if nonce.is_some_and(|nonce| cast.nonces.contains(&nonce)) {
                cast.txs.insert(tx.id.clone());
            }
        }
        for attempt in attempts().filter(|it| cast.txs.contains(&it.tx_id)) {
            cast.hashes.insert(attempt.hash.clone());
        }
        for own in &evidence.own {
            if cast.nonces.contains(&(own.signer.clone(), own.nonce)) {
                cast.hashes.insert(own.hash.clone());
            }
        }
        cast
    }

    /// The requests whose answers name one of the transactions.
    fn requests<'e>(&self, evidence: &'e Evidence) -> BTreeSet<&'e str> {
        let named = evidence.txs.iter().filter(|tx| self.txs.contains(&tx.id));
        let named = named.filter_map(|tx| tx.request_id.as_deref());
        let answered =
            evidence.calls.iter().filter_map(|call| match (&call.ask, call.answer.tx_id()) {
                (Ask::Send { request_id, .. }, Some(id)) if self.txs.contains(id) => {
                    Some(request_id.as_str())
                }
                _ => None,
            });
        named.chain(answered).collect()
    }
}

fn calls(evidence: &Evidence, cast: &Cast, lines: &mut Vec<(Micros, String)>) {
    let requests = cast.requests(evidence);
    for call in &evidence.calls {
        let told = match (&call.ask, call.answer.nonce()) {
            (Ask::Allocate { signer, .. }, Some(nonce)) => Some((signer.clone(), nonce)),
            _ => None,
        };
        let concerned = match &call.ask {
            Ask::Send { request_id, .. } => requests.contains(request_id.as_str()),
            Ask::Cancel { tx_id } | Ask::SpeedUp { tx_id } => cast.txs.contains(tx_id),
            Ask::Allocate { .. } => told.is_some_and(|nonce| cast.nonces.contains(&nonce)),
            Ask::Used { signer, nonce, .. } | Ask::Recyclable { signer, nonce, .. } => {
                cast.nonces.contains(&(signer.clone(), *nonce))
            }
        };
        if concerned {
            let took = (call.ended_at - call.at) / 1_000;
            let answer = match &call.answer {
                Answer::Lost => "no answer".to_owned(),
                said => format!("{said:?}"),
            };
            let line = format!("call to n{}: {:?} → {answer} after {took} ms", call.node, call.ask);
            lines.push((call.at, line));
        }
    }
}

fn records(evidence: &Evidence, cast: &Cast, lines: &mut Vec<(Micros, String)>) {
    for event in evidence.events.iter().filter(|event| cast.txs.contains(&event.tx_id)) {
        let line = format!(
            "event {} of {} (entry {}): {} → {} {:?}, by {} under {:?}: {}",
            event.seq,
            event.tx_id,
            event.entry,
            event.kind,
            event.state,
            event.sub_state,
            event.node,
            event.token,
            event.data
        );
        lines.push((event.at, line));
    }
    for attempt in evidence.attempts.iter().filter(|it| cast.txs.contains(&it.tx_id)) {
        let line = format!(
            "attempt {} of {}: {} {}, under {}",
            attempt.number, attempt.tx_id, attempt.kind, attempt.hash, attempt.token
        );
        lines.push((attempt.created_at, line));
    }
    // Read once at each restore, so one may have been read several times.
    let mut told = BTreeSet::new();
    let lost = evidence.lost_attempts.iter().filter(|it| cast.txs.contains(&it.tx_id));
    for attempt in lost.filter(|attempt| evidence.is_lost(attempt.created_at)) {
        if told.insert(&attempt.hash) {
            let (kind, tx_id) = (&attempt.kind, &attempt.tx_id);
            let line = format!("attempt of {tx_id} that was lost: {kind} {}", attempt.hash);
            lines.push((attempt.created_at, line));
        }
    }
}

fn outside(evidence: &Evidence, cast: &Cast, lines: &mut Vec<(Micros, String)>) {
    for sent in evidence.wire.iter().filter(|sent| cast.hashes.contains(&sent.hash)) {
        let line =
            format!("wire: {} to {}, on record: {:?}", sent.hash, sent.endpoint, sent.record);
        lines.push((sent.at, line));
    }
    for own in evidence.own.iter().filter(|own| cast.hashes.contains(&own.hash)) {
        let who =
            own.hold_id.as_deref().map_or("an outsider".to_owned(), |id| format!("hold {id}"));
        lines.push((own.at, format!("sent past Stile by {who}: nonce {} {}", own.nonce, own.hash)));
    }
    for place in evidence.places() {
        let nonce = (place.mined.from.clone(), place.mined.nonce);
        if cast.hashes.contains(&place.mined.hash) || cast.nonces.contains(&nonce) {
            let line =
                format!("block {} {}: {:?}", place.block.height, place.block.hash, place.mined);
            lines.push((place.block.timestamp * 1_000_000, line));
        }
    }
}

/// What happened to the lane and to the chain meanwhile, and shortly before and after.
fn around(evidence: &Evidence, cast: &Cast, lines: &mut Vec<(Micros, String)>) {
    let times = || lines.iter().map(|(at, _)| *at);
    let (first, last) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
    let meanwhile = |at: Micros| (first - MARGIN..=last + MARGIN).contains(&at);
    let mut seen: Vec<(Micros, String)> = Vec::new();
    let signers: BTreeSet<&str> = cast.nonces.iter().map(|(signer, _)| signer.as_str()).collect();
    let of_lanes = evidence.lane_events.iter();
    for event in of_lanes.filter(|event| signers.contains(event.signer.as_str())) {
        let line = format!(
            "lane {}: {} by {} under {:?}: {}",
            event.signer, event.kind, event.node, event.token, event.data
        );
        seen.push((event.at, line));
    }
    let mut last_seen: Option<(u64, &str)> = None;
    for sample in evidence.samples.iter().filter(|it| signers.contains(it.signer.as_str())) {
        if last_seen != Some((sample.token, &sample.owner)) {
            let line =
                format!("lane {}: token {} of {}", sample.signer, sample.token, sample.owner);
            seen.push((sample.at, line));
        }
        last_seen = Some((sample.token, &sample.owner));
    }
    for reorg in &evidence.reorgs {
        let line = format!("reorganisation: {} blocks, from {}", reorg.depth, reorg.first_height);
        seen.push((reorg.at, line));
    }
    for restore in &evidence.restores {
        let line = format!("the database goes back to what it was at {}", clock(restore.kept_at));
        seen.push((restore.at, line));
    }
    lines.extend(seen.into_iter().filter(|(at, _)| meanwhile(*at)));
}

#[cfg(test)]
mod tests {
    use super::super::sample::good;
    use super::*;
    use crate::evidence::Restore;

    #[test]
    fn a_story_has_requests_events_attempts_wire_and_blocks_in_order() {
        let told = story(&good(), &About::tx("tx-a"));
        let parts = ["r-a", "BOUND", "wire: 0xa0", "MINED", "CONFIRMED"];
        let places: Vec<usize> = parts.iter().map(|part| told.find(part).unwrap()).collect();
        assert!(places.is_sorted(), "{told}");
        assert!(told.contains("block 1 0xblock1") && told.contains("attempt 1 of tx-a"), "{told}");
        assert!(!told.contains("tx-b"), "{told}");
    }

    #[test]
    fn a_nonce_leads_to_all_who_had_it() {
        let told = story(&good(), &About::nonce(super::super::sample::LANE, 3));
        assert!(
            told.contains("hold-d") && told.contains("tx-f") && told.contains("0xf0"),
            "{told}"
        );
    }

    #[test]
    fn what_a_restore_has_lost_is_told_with_the_restore() {
        let mut evidence = good();
        let mut lost = evidence.attempts[0].clone();
        (lost.tx_id, lost.hash) = ("tx-lost".to_owned(), "0xlost".to_owned());
        evidence.restores.push(Restore { kept_at: lost.created_at, at: lost.created_at + 9 });
        evidence.lost_attempts = vec![lost.clone(), lost];
        let about = About::hashes(vec!["0xa0".to_owned(), "0xlost".to_owned()]);
        let told = story(&evidence, &about);
        assert!(told.contains("the database goes back to what it was at 00:00:00.2"), "{told}");
        assert_eq!(told.matches("attempt of tx-lost that was lost: SEND 0xlost").count(), 1);
        assert!(told.contains("event 2 of tx-a"), "{told}");
    }

    #[test]
    fn times_are_written_as_on_a_clock() {
        assert_eq!(clock(((13 * 3_600 + 7 * 60 + 5) * 1_000_000) + 42), "13:07:05.000042");
    }
}
