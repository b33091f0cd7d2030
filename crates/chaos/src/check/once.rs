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
    let mut of_request: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for tx in evidence.txs.iter().filter(|tx| tx.tenant != FILLER_TENANT) {
        if let Some(request) = &tx.request_id {
            of_request.entry((&tx.signer, request)).or_default().insert(&tx.id);
        }
    }
    for call in evidence.calls.iter().filter(|call| call.answer.is_success()) {
        if let (Ask::Send { signer, request_id, .. }, Some(id)) = (&call.ask, call.answer.tx_id()) {
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
    for call in &evidence.calls {
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
    for (id, attempts) in evidence.attempts_by_tx() {
        let on_chain: Vec<&str> = attempts
            .iter()
            .map(|attempt| attempt.hash.as_str())
            .filter(|hash| mined.contains_key(hash))
            .collect();
        if on_chain.len() > 1 {
            findings.add(About::tx(id), format!("{id} is mined as {on_chain:?}"));
        }
    }
    // By what it does, in case the store knows nothing of it: each request carries an amount of its
    // own.
    let mut asked: BTreeMap<(&str, String), &str> = BTreeMap::new();
    for call in &evidence.calls {
        if let Ask::Send { signer, request_id, wei } = &call.ask {
            asked.entry((signer, wei.to_string())).or_insert(request_id);
        }
    }
    let mut carried: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for place in evidence.places() {
        let key = (place.mined.from.as_str(), place.mined.wei.as_str());
        carried.entry(key).or_default().push(&place.mined.hash);
    }
    for ((from, wei), hashes) in carried.iter().filter(|(_, hashes)| hashes.len() > 1) {
        if let Some(request) = asked.get(&(*from, (*wei).to_owned())) {
            findings.add(
                About::hash(hashes[0]),
                format!("the {wei} wei of request {request} were carried by {hashes:?}"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{broken, good, said};
    use super::*;

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
    fn an_amount_that_was_carried_twice_is_found_without_the_store() {
        let mut evidence = good();
        let mut twice = evidence.chain[1].txs[0].clone();
        twice.hash = "0xunknown".to_owned();
        twice.nonce = 9;
        evidence.chain[3].txs.push(twice);
        assert!(broken(check, &evidence)[0].contains("were carried by"));
    }
}
