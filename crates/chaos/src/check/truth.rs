//! C6: FAILED is not on the canonical chain; CONFIRMED has a canonical receipt, as deep as asked; a
//! change of either is told by an event and has a reorganisation behind it.

use std::collections::BTreeMap;

use super::{About, Findings, Rule};
use crate::evidence::{Attempt, Event, Evidence, Place, Tx};

pub(super) fn check(evidence: &Evidence) -> Findings {
    let mut findings = Findings::of(Rule::C6);
    let mined = evidence.mined_by_hash();
    let used = evidence.mined_by_nonce();
    let attempts = evidence.attempts_by_tx();
    for tx in &evidence.txs {
        let attempts = attempts.get(tx.id.as_str()).map_or(&[][..], Vec::as_slice);
        let wrong = match tx.state.as_str() {
            "FAILED" => failed(tx, attempts, &mined, &used),
            "CONFIRMED" => confirmed(evidence, tx, attempts, &mined),
            _ => None,
        };
        if let Some(what) = wrong {
            findings.add(About::tx(&tx.id), what);
        }
    }
    for (id, events) in evidence.events_by_tx() {
        if let Some(what) = reopened_for_nothing(evidence, &events) {
            findings.add(About::tx(id), format!("{id}: {what}"));
        }
    }
    findings
}

fn failed(
    tx: &Tx,
    attempts: &[&Attempt],
    mined: &BTreeMap<&str, Place<'_>>,
    used: &BTreeMap<(&str, u64), Place<'_>>,
) -> Option<String> {
    let real = attempts.iter().filter(|attempt| attempt.carries_payload());
    let on_chain = real.filter_map(|attempt| mined.get(attempt.hash.as_str())).next();
    if let Some(place) = on_chain {
        return Some(format!("{} is FAILED, and in block {}", tx.id, place.block.height));
    }
    let nonce = tx.nonce?;
    if used.contains_key(&(tx.signer.as_str(), nonce)) {
        return None;
    }
    Some(format!("{} is FAILED, and nothing is mined at its nonce {nonce}", tx.id))
}

fn confirmed(
    evidence: &Evidence,
    tx: &Tx,
    attempts: &[&Attempt],
    mined: &BTreeMap<&str, Place<'_>>,
) -> Option<String> {
    let hash = tx.tx_hash.as_deref().unwrap_or_default();
    let Some(place) = mined.get(hash) else {
        return Some(format!("{} is CONFIRMED as {hash}, which is on no canonical block", tx.id));
    };
    if tx.block_hash.as_deref() != Some(place.block.hash.as_str()) {
        return Some(format!(
            "{} is CONFIRMED in block {:?}, and {hash} is in {}",
            tx.id, tx.block_hash, place.block.hash
        ));
    }
    let attempt = attempts.iter().find(|attempt| attempt.hash == hash);
    if !attempt.is_some_and(|attempt| attempt.carries_payload()) {
        return Some(format!("{} is CONFIRMED by {hash}, which does not do it", tx.id));
    }
    if place.mined.wei != tx.wei || Some(place.mined.nonce) != tx.nonce {
        return Some(format!("{} is CONFIRMED by {:?}", tx.id, place.mined));
    }
    let asked: u64 = tx.finality.parse().ok()?;
    let depth = evidence.head().saturating_sub(place.block.height);
    (depth < asked).then(|| format!("{} is CONFIRMED with {depth} blocks, not {asked}", tx.id))
}

/// What was in a block is taken out of it, and what is done is reopened, only if that block, or that
/// of the other one at its nonce, was replaced.
fn reopened_for_nothing(evidence: &Evidence, events: &[&Event]) -> Option<String> {
    let is_done = |event: &&Event| event.state == "CONFIRMED" || event.state == "FAILED";
    let mut height = None;
    for (place, event) in events.iter().enumerate() {
        let data: serde_json::Value = serde_json::from_str(&event.data).unwrap_or_default();
        let before = place.checked_sub(1).map(|before| &events[before]);
        let reopened = before.is_some_and(is_done) && !is_done(event);
        if reopened && !["REORGED", "NEW_FORK", "MINED"].contains(&event.kind.as_str()) {
            return Some(format!("it was done, and {} is no reorganisation", event.kind));
        }
        if reopened || event.kind == "REORGED" {
            // One that is still there but less deep was below the blocks that were replaced.
            let own = data["was"]["blockNumber"].as_u64().or(height);
            let own = own.filter(|_| event.kind != "NEW_FORK");
            let behind = evidence.reorgs.iter().any(|reorg| {
                reorg.at <= event.at && own.is_none_or(|height| reorg.first_height <= height)
            });
            if !behind {
                let kind = &event.kind;
                return Some(format!(
                    "{kind} at height {own:?}, and no such block was ever replaced"
                ));
            }
        }
        height = data["blockNumber"].as_u64().or(height);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::sample::{broken, event, good};
    use super::*;
    use crate::evidence::Reorg;

    #[test]
    fn what_is_told_and_what_the_chain_shows_agree() {
        assert_eq!(broken(check, &good()), [] as [String; 0]);
    }

    #[test]
    fn a_failed_one_that_is_on_the_chain_is_found() {
        let mut evidence = good();
        evidence.txs[0].state = "FAILED".to_owned();
        assert!(broken(check, &evidence)[0].contains("is FAILED, and in block"));
    }

    #[test]
    fn a_failed_one_whose_nonce_nobody_used_is_found() {
        let mut evidence = good();
        evidence.chain[2].txs.clear();
        assert!(broken(check, &evidence)[0].contains("nothing is mined at its nonce 1"));
    }

    #[test]
    fn a_receipt_from_a_side_block_is_found() {
        let mut evidence = good();
        evidence.txs[0].block_hash = Some("0xside".to_owned());
        assert!(broken(check, &evidence)[0].contains("0xside"));
    }

    #[test]
    fn a_confirmed_one_that_is_not_on_the_chain_is_found() {
        let mut evidence = good();
        evidence.chain[1].txs.clear();
        assert!(broken(check, &evidence)[0].contains("on no canonical block"));
    }

    #[test]
    fn one_that_is_not_as_deep_as_asked_is_found() {
        let mut evidence = good();
        evidence.txs[0].finality = "1000".to_owned();
        assert!(broken(check, &evidence)[0].contains("not 1000"));
    }

    #[test]
    fn what_is_reopened_has_a_reorganisation_behind_it() {
        let mut evidence = good();
        evidence.events.push(event("tx-a", 6, 60, "REORGED", "SUBMITTED", 2));
        assert!(broken(check, &evidence)[0].contains("no such block was ever replaced"));
        evidence.reorgs.push(Reorg { at: 1, first_height: 1, depth: 2 });
        assert_eq!(broken(check, &evidence), [] as [String; 0]);
        evidence.reorgs[0].first_height = 2;
        assert_eq!(broken(check, &evidence).len(), 1, "its block is below");
    }

    #[test]
    fn what_is_reopened_without_a_word_is_found() {
        let mut evidence = good();
        evidence.events.push(event("tx-a", 6, 60, "SENT", "SUBMITTED", 2));
        assert!(broken(check, &evidence)[0].contains("SENT is no reorganisation"));
    }
}
