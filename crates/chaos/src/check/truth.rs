//! C6: FAILED is not on the canonical chain, and has a reason; CONFIRMED has a canonical receipt, as deep as asked; a
//! change of either is told by an event and has a reorganisation behind it.

use std::collections::{BTreeMap, BTreeSet};

use super::{About, Findings, Rule};
use crate::evidence::{Ask, Attempt, Event, Evidence, FILLER_TENANT, Gas, LieTold, Place, Tx};
use crate::schedule::Kind;

pub(super) fn check(evidence: &Evidence) -> Findings {
    let mut findings = Findings::of(Rule::C6);
    let mined = evidence.mined_by_hash();
    let used = evidence.mined_by_nonce();
    let attempts = evidence.attempts_by_tx();
    let reasons = Reasons::of(evidence);
    // A person said that it was sent in a history that is lost, and had it closed: that is no word
    // about the chain, where its bytes may still turn up.
    let closed = |tx: &&Tx| evidence.closed.contains(&tx.id) && tx.state == "FAILED";
    for tx in evidence.txs.iter().filter(|tx| !closed(tx)) {
        let attempts = attempts.get(tx.id.as_str()).map_or(&[][..], Vec::as_slice);
        let wrong = match tx.state.as_str() {
            "FAILED" => failed(tx, attempts, &mined, &used).or_else(|| reasons.missing(tx, &used)),
            "CONFIRMED" => confirmed(evidence, tx, attempts, &mined),
            _ => None,
        };
        if let Some(what) = wrong {
            findings.add(About::tx(&tx.id), what);
        }
    }
    for (id, events) in evidence.events_by_tx() {
        let attempts = attempts.get(id).map_or(&[][..], Vec::as_slice);
        let hashes: Vec<&str> = attempts.iter().map(|attempt| attempt.hash.as_str()).collect();
        if let Some(what) = reopened_for_nothing(evidence, &events, &hashes) {
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

/// Why transactions may fail: somebody asked for it, or made it impossible.
struct Reasons<'e> {
    /// Somebody asked for them to be withdrawn.
    cancelled: BTreeSet<&'e str>,
    /// Their gas was left to be estimated.
    estimated: BTreeSet<(&'e str, &'e str)>,
    /// They want more gas than a block has.
    too_little: BTreeSet<(&'e str, &'e str)>,
    /// What was sent past Stile, and what a history sent that is lost.
    others: BTreeSet<&'e str>,
}

impl<'e> Reasons<'e> {
    fn of(evidence: &'e Evidence) -> Self {
        let own = evidence.own.iter().map(|own| own.hash.as_str());
        let lost = evidence.lost_attempts.iter().map(|attempt| attempt.hash.as_str());
        let mut reasons = Self {
            cancelled: BTreeSet::new(),
            estimated: BTreeSet::new(),
            too_little: BTreeSet::new(),
            others: own.chain(lost).collect(),
        };
        for call in &evidence.calls {
            match &call.ask {
                Ask::Cancel { tx_id } => {
                    reasons.cancelled.insert(tx_id);
                }
                Ask::Send { signer, request_id, gas, .. } => {
                    let request = (signer.as_str(), request_id.as_str());
                    match gas {
                        Gas::Stated => false,
                        Gas::Estimated | Gas::NeverEstimated => reasons.estimated.insert(request),
                        Gas::TooLittle => reasons.too_little.insert(request),
                    };
                }
                _ => {}
            }
        }
        reasons
    }

    /// What is wrong with a failure that nobody is to blame for.
    fn missing(&self, tx: &Tx, used: &BTreeMap<(&str, u64), Place<'_>>) -> Option<String> {
        let request = (tx.signer.as_str(), tx.request_id.as_deref().unwrap_or_default());
        let winner = tx.nonce.and_then(|nonce| used.get(&(tx.signer.as_str(), nonce)));
        let overtaken = winner.is_some_and(|place| self.others.contains(place.mined.hash.as_str()));
        // One that could not be estimated fails before it has a nonce.
        let not_estimated = tx.nonce.is_none() && self.estimated.contains(&request);
        let excused = tx.tenant == FILLER_TENANT
            || self.cancelled.contains(tx.id.as_str())
            || self.too_little.contains(&request)
            || not_estimated
            || overtaken;
        (!excused).then(|| format!("{} is FAILED, and nobody asked for that", tx.id))
    }
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
    // Nothing that is sent in these runs can fail.
    if tx.sub_state.as_deref() == Some("REVERTED") {
        return Some(format!("{} is told to have failed in its block, and has not", tx.id));
    }
    let asked: u64 = tx.finality.parse().ok()?;
    let depth = evidence.head().saturating_sub(place.block.height);
    (depth < asked).then(|| format!("{} is CONFIRMED with {depth} blocks, not {asked}", tx.id))
}

/// What was in a block is taken out of it, and what is done is reopened, only if that block, or that
/// of the other one at its nonce, was replaced.
fn reopened_for_nothing(evidence: &Evidence, events: &[&Event], hashes: &[&str]) -> Option<String> {
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
            // On the word of one liar it may have been followed for a while, but not called done.
            let was_block = data["was"]["blockHash"].as_str().unwrap_or_default();
            let lied_about = evidence.made_up.contains(was_block)
                || hashes.iter().any(|hash| evidence.made_up.contains(*hash));
            let flickered =
                displaced_for_a_moment(evidence, event, was_block, &events[place + 1..]);
            if !behind && (reopened || !(lied_about || flickered)) {
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

/// Whether a true block was told of again after it was taken out, while an endpoint made up blocks: one of
/// those may be followed in its place until it is outvoted.
fn displaced_for_a_moment(
    evidence: &Evidence,
    gone: &Event,
    block: &str,
    later: &[&Event],
) -> bool {
    let makes_up = |lie: &LieTold| lie.kind == Kind::LiarBlocks.name() && lie.at <= gone.at;
    let told_again = |event: &&Event| {
        let data: serde_json::Value = serde_json::from_str(&event.data).unwrap_or_default();
        data["blockHash"] == block
    };
    !block.is_empty() && evidence.lies.iter().any(makes_up) && later.iter().any(told_again)
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
    fn a_failure_that_nobody_asked_for_is_found() {
        let mut evidence = good();
        evidence.calls.retain(|call| !matches!(call.ask, Ask::Cancel { .. }));
        assert!(broken(check, &evidence)[0].contains("tx-b is FAILED, and nobody asked for that"));
        for call in &mut evidence.calls {
            if let Ask::Send { gas, .. } = &mut call.ask {
                *gas = Gas::TooLittle;
            }
        }
        assert_eq!(broken(check, &evidence), [] as [String; 0], "no block has room for it");
    }

    #[test]
    fn only_what_has_no_nonce_fails_for_want_of_an_estimate() {
        let mut evidence = good();
        evidence.calls.retain(|call| !matches!(call.ask, Ask::Cancel { .. }));
        for call in &mut evidence.calls {
            if let Ask::Send { gas, .. } = &mut call.ask {
                *gas = Gas::NeverEstimated;
            }
        }
        assert_eq!(broken(check, &evidence).len(), 1);
        evidence.txs[1].nonce = None;
        assert_eq!(broken(check, &evidence), [] as [String; 0]);
    }

    #[test]
    fn one_that_lost_its_nonce_to_somebody_else_has_a_reason() {
        let mut evidence = good();
        evidence.calls.retain(|call| !matches!(call.ask, Ask::Cancel { .. }));
        let mut lost = evidence.attempts[2].clone();
        lost.tx_id = "tx-lost".to_owned();
        evidence.lost_attempts.push(lost);
        assert_eq!(broken(check, &evidence), [] as [String; 0]);
    }

    #[test]
    fn a_failure_that_only_a_liar_knows_of_is_found() {
        let mut evidence = good();
        evidence.txs[0].sub_state = Some("REVERTED".to_owned());
        assert!(broken(check, &evidence)[0].contains("told to have failed in its block"));
    }

    #[test]
    fn what_a_person_closed_says_nothing_about_the_chain() {
        let mut evidence = good();
        evidence.txs[0].state = "FAILED".to_owned();
        evidence.closed.insert("tx-a".to_owned());
        assert_eq!(broken(check, &evidence), [] as [String; 0]);
    }

    #[test]
    fn a_liars_block_may_be_followed_but_not_called_final() {
        let mut evidence = good();
        let gone = |seq, entry| Event {
            data: "{\"was\":{\"blockNumber\":1,\"blockHash\":\"0xmade-up\"}}".to_owned(),
            ..event("tx-a", seq, entry, "REORGED", "SUBMITTED", 1)
        };
        evidence.events.retain(|event| event.tx_id != "tx-a" || event.kind != "CONFIRMED");
        evidence.events.push(gone(5, 5));
        assert!(broken(check, &evidence)[0].contains("no such block was ever replaced"));
        evidence.made_up.insert("0xmade-up".to_owned());
        assert_eq!(broken(check, &evidence), [] as [String; 0]);
        let mut evidence = good();
        evidence.made_up.insert("0xmade-up".to_owned());
        evidence.events.push(gone(6, 60));
        assert_eq!(broken(check, &evidence).len(), 1, "it was called done");
    }

    #[test]
    fn a_true_block_may_be_displaced_by_a_liars_for_a_moment() {
        let mut evidence = good();
        evidence.events.retain(|event| event.tx_id != "tx-a" || event.kind != "CONFIRMED");
        let of_block = |(seq, entry), kind, data: &str| Event {
            data: data.to_owned(),
            ..event("tx-a", seq, entry, kind, "SUBMITTED", 1)
        };
        let was = "{\"was\":{\"blockNumber\":1,\"blockHash\":\"0xtrue\"}}";
        evidence.events.push(of_block((5, 5), "REORGED", was));
        evidence.events.push(of_block(
            (6, 6),
            "MINED",
            "{\"blockNumber\":1,\"blockHash\":\"0xtrue\"}",
        ));
        assert!(broken(check, &evidence)[0].contains("no such block was ever replaced"));
        let lie = |kind| LieTold {
            at: 0,
            kind,
            endpoint: 0,
            nodes: 3,
            doctors: 3,
            metrics: 3,
            others: 0,
        };
        evidence.lies.push(lie("liar leaps ahead"));
        assert_eq!(broken(check, &evidence).len(), 1, "nobody made up blocks");
        evidence.lies.push(lie(Kind::LiarBlocks.name()));
        assert_eq!(broken(check, &evidence), [] as [String; 0]);
        evidence.events.pop();
        assert_eq!(broken(check, &evidence).len(), 1, "and it was not told of again");
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
