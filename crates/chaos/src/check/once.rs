//! C2: a request has at most one nonce and at most one mined transaction.

use std::collections::{BTreeMap, BTreeSet};

use super::{About, Findings, Rule};
use crate::evidence::{Ask, Evidence, FILLER_TENANT};

pub(super) fn check(evidence: &Evidence) -> Findings {
    let mut findings = Findings::of(Rule::C2);
    one_transaction_for_a_request(evidence, &mut findings);
    one_nonce_for_a_transaction(evidence, &mut findings);
    one_mined_for_a_request(evidence, &mut findings);
    findings
}

fn one_transaction_for_a_request(evidence: &Evidence, findings: &mut Findings) {
    let txs = evidence.txs_by_id();
    let mut of_request: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for tx in evidence.txs.iter().filter(|tx| tx.tenant != FILLER_TENANT) {
        if let Some(request) = &tx.request_id {
            of_request.entry((&tx.signer, request)).or_default().insert(&tx.id);
        }
    }
    for call in evidence.calls.iter().filter(|call| call.answer.is_success()) {
        if let (Ask::Send { signer, request_id, .. }, Some(id)) = (&call.ask, call.answer.tx_id()) {
            // What a restore has lost is another transaction when it is asked for again. Only one of
            // them is on record, and what may have been mined of both is C10's.
            if evidence.is_lost_call(call) && !txs.contains_key(id) {
                continue;
            }
            of_request.entry((signer, request_id)).or_default().insert(id);
        }
    }
    for ((_, request), ids) in of_request.iter().filter(|(_, ids)| ids.len() > 1) {
        let first = ids.first().copied().unwrap_or_default();
        findings.add(About::tx(first), format!("request {request} is {ids:?}"));
    }
}

fn one_nonce_for_a_transaction(evidence: &Evidence, findings: &mut Findings) {
    let txs = evidence.txs_by_id();
    // A nonce that was told and lost with a restore may be another one now.
    for call in evidence.calls.iter().filter(|call| !evidence.is_lost_call(call)) {
        let known = call.answer.tx_id().and_then(|id| txs.get(id));
        let (Some(tx), Some(told)) = (known, call.answer.nonce()) else { continue };
        if tx.nonce != Some(told) {
            findings.add(
                About::tx(&tx.id),
                format!("{} was told to have nonce {told}, and has {:?}", tx.id, tx.nonce),
            );
        }
    }
    for (id, events) in evidence.events_by_tx() {
        let bound = events.iter().filter(|event| event.kind == "BOUND").count();
        if bound > 1 {
            findings.add(About::tx(id), format!("{id} was bound {bound} times"));
        }
    }
}

fn one_mined_for_a_request(evidence: &Evidence, findings: &mut Findings) {
    let mined = evidence.mined_by_hash();
    // With those that a restore has lost: what is mined is mined. But for empty transactions, which do
    // nothing: one whose nonce was lost fills the next gap.
    let txs = evidence.txs_by_id();
    let is_filler = |id: &str| txs.get(id).is_some_and(|tx| tx.tenant == FILLER_TENANT);
    let lost = evidence.lost_attempts.iter().filter(|lost| !is_filler(&lost.tx_id));
    let mut attempts: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for attempt in evidence.attempts.iter().chain(lost) {
        attempts.entry(&attempt.tx_id).or_default().insert(&attempt.hash);
    }
    for (id, hashes) in attempts {
        let on_chain: Vec<&str> =
            hashes.into_iter().filter(|hash| mined.contains_key(hash)).collect();
        if on_chain.len() > 1 {
            findings.add(About::tx(id), format!("{id} is mined as {on_chain:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{broken, good, said};
    use super::*;
    use crate::evidence::Restore;

    #[test]
    fn a_request_that_is_mined_once_is_fine() {
        assert_eq!(broken(check, &good()), [] as [String; 0]);
    }

    #[test]
    fn two_transactions_for_one_request_are_found() {
        let mut evidence = good();
        let mut again = evidence.calls[0].clone();
        again.answer = said(200, Some("tx-other"), None, None);
        evidence.calls.push(again);
        assert!(broken(check, &evidence)[0].contains("request r-a"));
    }

    #[test]
    fn a_nonce_that_changed_since_it_was_told_is_found() {
        let mut evidence = good();
        evidence.calls[0].answer = said(202, Some("tx-a"), None, Some(77));
        assert!(broken(check, &evidence)[0].contains("nonce 77"));
    }

    #[test]
    fn two_attempts_on_chain_are_found() {
        let mut evidence = good();
        let mut twice = evidence.chain[2].txs[0].clone();
        twice.hash = "0xb0".to_owned();
        evidence.chain[3].txs.push(twice);
        assert!(broken(check, &evidence).iter().any(|what| what.contains("is mined as")));
    }

    #[test]
    fn what_a_restore_has_lost_may_be_another_one_now() {
        let mut evidence = good();
        let mut before = evidence.calls[0].clone();
        before.answer = said(202, Some("tx-lost"), None, Some(5));
        evidence.calls.push(before);
        evidence.restores.push(Restore { kept_at: 40_000, at: 60_000 });
        assert_eq!(broken(check, &evidence), [] as [String; 0]);
        evidence.restores[0] = Restore { kept_at: 60_000, at: 70_000 };
        assert_eq!(broken(check, &evidence).len(), 1, "it was taken before the backup");
    }

    #[test]
    fn an_attempt_of_a_lost_history_counts_if_it_is_mined() {
        let mut evidence = good();
        let mut lost = evidence.attempts[0].clone();
        lost.hash = "0xc0".to_owned();
        evidence.lost_attempts.push(lost);
        assert!(broken(check, &evidence)[0].contains("tx-a is mined as"));
        // One that does nothing may be mined again.
        evidence.txs[0].tenant = FILLER_TENANT.to_owned();
        assert_eq!(broken(check, &evidence), [] as [String; 0]);
    }
}
