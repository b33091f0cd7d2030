//! C5: every success survives, and is at its end once faults have stopped for long enough.

use std::collections::BTreeSet;

use super::{About, Findings, Rule};
use crate::evidence::{Ask, Call, Evidence};

pub(super) fn check(evidence: &Evidence) -> Findings {
    let mut findings = Findings::of(Rule::C5);
    let txs = evidence.txs_by_id();
    let ledger: BTreeSet<(&str, u64)> =
        evidence.nonces.iter().map(|row| (row.signer.as_str(), row.nonce)).collect();
    let mut missing = BTreeSet::new();
    // What was answered between a backup and its return is gone by definition. Its callers ask again, and
    // what they are told then is held to this.
    let kept = |call: &&Call| call.answer.is_success() && !evidence.is_lost_call(call);
    for call in evidence.calls.iter().filter(kept) {
        match &call.ask {
            Ask::Send { request_id, .. } => {
                let id = call.answer.tx_id().unwrap_or_default();
                if !txs.contains_key(id) && missing.insert(id) {
                    let what = format!("request {request_id} was taken as {id}, which is gone");
                    findings.add(About::tx(id), what);
                }
            }
            Ask::Allocate { signer, .. } => {
                let Some(nonce) = call.answer.nonce() else { continue };
                if !ledger.contains(&(signer.as_str(), nonce)) {
                    let what = format!("nonce {nonce} of {signer} was given out and is not known");
                    findings.add(About::nonce(signer, nonce), what);
                }
            }
            _ => {}
        }
    }
    let lost: BTreeSet<&str> = evidence
        .calls
        .iter()
        .filter(|call| evidence.is_lost_call(call))
        .filter_map(|call| call.answer.tx_id())
        .filter(|id| !txs.contains_key(id))
        .collect();
    for call in evidence.calls.iter().filter(|call| call.answer.code() == Some("tx-not-found")) {
        if let Ask::Cancel { tx_id } | Ask::SpeedUp { tx_id } = &call.ask
            && !lost.contains(tx_id.as_str())
        {
            let what = format!("{tx_id} was taken, and n{} does not find it", call.node);
            findings.add(About::tx(tx_id), what);
        }
    }
    for tx in evidence.txs.iter().filter(|tx| !tx.is_done()) {
        let what = format!("{} is {} with nonce {:?} at the end", tx.id, tx.state, tx.nonce);
        findings.add(About::tx(&tx.id), what);
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::sample::{broken, good};
    use super::*;
    use crate::evidence::{Answer, Restore};

    #[test]
    fn what_was_taken_and_ended_is_fine() {
        assert_eq!(broken(check, &good()), [] as [String; 0]);
    }

    #[test]
    fn a_lost_acceptance_is_found() {
        let mut evidence = good();
        evidence.txs.remove(0);
        assert!(broken(check, &evidence)[0].contains("which is gone"));
    }

    #[test]
    fn what_a_restore_has_lost_is_gone_and_nothing_else_is() {
        let mut evidence = good();
        evidence.txs.remove(0);
        evidence.restores.push(Restore { kept_at: 40_000, at: 60_000 });
        assert_eq!(broken(check, &evidence), [] as [String; 0]);
        evidence.restores[0].kept_at = 55_000;
        assert_eq!(broken(check, &evidence).len(), 1, "it was answered before the backup");
    }

    #[test]
    fn a_node_that_does_not_find_what_was_taken_is_found() {
        let mut evidence = good();
        let mut call = evidence.calls[0].clone();
        call.ask = Ask::Cancel { tx_id: "tx-a".to_owned() };
        call.answer = Answer::Said {
            status: 404,
            code: Some("tx-not-found".to_owned()),
            tx_id: None,
            hold_id: None,
            nonce: None,
        };
        evidence.calls.push(call);
        assert!(broken(check, &evidence)[0].contains("does not find it"));
    }

    #[test]
    fn a_lost_hold_is_found() {
        let mut evidence = good();
        evidence.nonces.retain(|row| row.owner_kind != "hold");
        assert!(broken(check, &evidence)[0].contains("is not known"));
    }

    #[test]
    fn one_that_is_still_open_is_found() {
        let mut evidence = good();
        evidence.txs[0].state = "SUBMITTED".to_owned();
        assert!(broken(check, &evidence)[0].contains("is SUBMITTED"));
    }
}
