//! C1: a nonce belongs to one request ever, besides its own cancel attempt, or a filler where
//! nothing was bound.

use std::collections::BTreeMap;

use super::{About, Findings, Rule};
use crate::evidence::{Answer, Ask, Call, Event, Evidence, Micros, Tx};

/// Somebody who had a nonce, and when.
#[derive(Debug)]
struct Claim {
    owner: String,
    /// It had the nonce by then at the latest.
    by: Micros,
    /// It may have been without it from then on; `None` if it never gave it back.
    until: Option<Micros>,
    /// Between these two the database did not know that it had it: it went back to before, and then it was
    /// found on the chain.
    unknown: Option<(Micros, Micros)>,
}

pub(super) fn check(evidence: &Evidence) -> Findings {
    let mut findings = Findings::of(Rule::C1);
    for ((signer, nonce), claims) in claims(evidence) {
        for (place, first) in claims.iter().enumerate() {
            for second in &claims[place + 1..] {
                if !one_after_the_other(first, second) && !one_after_the_other(second, first) {
                    findings.add(
                        About::nonce(&signer, nonce),
                        format!(
                            "nonce {nonce} of {signer} belongs to {} and to {}",
                            first.owner, second.owner
                        ),
                    );
                }
            }
        }
    }
    let ledger: BTreeMap<(&str, u64), &str> = evidence
        .nonces
        .iter()
        .map(|row| ((row.signer.as_str(), row.nonce), row.owner_id.as_str()))
        .collect();
    for tx in &evidence.txs {
        let Some(nonce) = tx.nonce else { continue };
        let owner = ledger.get(&(tx.signer.as_str(), nonce));
        if owner != Some(&tx.id.as_str()) {
            findings.add(
                About::tx(&tx.id),
                format!("transaction {} has nonce {nonce}, and the ledger says {owner:?}", tx.id),
            );
        }
    }
    findings
}

fn one_after_the_other(first: &Claim, second: &Claim) -> bool {
    first.until.is_some_and(|until| until <= second.by) || while_unknown(first, second)
}

/// Whether somebody had the nonce, and gave it back unused, only while the database did not know who had
/// used it. The chain's nodes would have refused whatever was sent with it.
fn while_unknown(somebody: &Claim, owner: &Claim) -> bool {
    let Some((from, to)) = owner.unknown else { return false };
    somebody.by >= from && somebody.until.is_some_and(|until| until <= to)
}

/// Who says that it has which nonce: transactions by the store, holders by what they were told.
fn claims(evidence: &Evidence) -> BTreeMap<(String, u64), Vec<Claim>> {
    let mut claims: BTreeMap<(String, u64), Vec<Claim>> = BTreeMap::new();
    let histories = evidence.events_by_tx();
    for tx in &evidence.txs {
        let Some(nonce) = tx.nonce else { continue };
        let history = histories.get(tx.id.as_str()).map_or(&[][..], Vec::as_slice);
        let bound = history.iter().find(|event| event.kind == "BOUND").map(|event| event.at);
        let by = bound.or_else(|| recovered(evidence, tx)).unwrap_or(tx.created_at);
        let owner = format!("transaction {}", tx.id);
        claims.entry((tx.signer.clone(), nonce)).or_default().push(Claim {
            owner,
            by,
            until: None,
            unknown: unknown(evidence, tx, history),
        });
    }
    for (hold_id, (signer, nonce, by)) in holds(evidence) {
        let until = given_back(evidence, &hold_id);
        let owner = format!("hold {hold_id}");
        claims.entry((signer, nonce)).or_default().push(Claim { owner, by, until, unknown: None });
    }
    claims
}

/// When a transaction that was found on chain after a restore had got its nonce: when its attempt was
/// made, in the history that was lost.
fn recovered(evidence: &Evidence, tx: &Tx) -> Option<Micros> {
    let hash = tx.tx_hash.as_ref()?;
    let lost = evidence.lost_attempts.iter().filter(|attempt| attempt.hash == *hash);
    lost.map(|attempt| attempt.created_at).min()
}

/// From when to when the database did not know that a transaction had its nonce.
fn unknown(evidence: &Evidence, tx: &Tx, history: &[&Event]) -> Option<(Micros, Micros)> {
    let had = recovered(evidence, tx)?;
    let found = history.iter().find(|event| event.kind == "RECOVERED")?.at;
    let lost = evidence.restores.iter().filter(|restore| restore.at >= had && restore.at <= found);
    Some((lost.map(|restore| restore.at).min()?, found))
}

/// Each hold that a caller was told of: account, nonce, and the first time it was told.
fn holds(evidence: &Evidence) -> BTreeMap<String, (String, u64, Micros)> {
    let mut holds: BTreeMap<String, (String, u64, Micros)> = BTreeMap::new();
    // A hold that was told and lost with a restore is known to its caller only: with nobody left who
    // remembers it, its nonce may go to somebody else.
    let kept = |call: &&Call| call.answer.is_success() && !evidence.is_lost_call(call);
    for call in evidence.calls.iter().filter(kept) {
        let Ask::Allocate { signer, .. } = &call.ask else { continue };
        let (Some(hold_id), Some(nonce)) = (call.answer.hold_id(), call.answer.nonce()) else {
            continue;
        };
        let told = (signer.clone(), nonce, call.ended_at);
        let known = holds.entry(hold_id.to_owned()).or_insert_with(|| told.clone());
        known.2 = known.2.min(told.2);
    }
    holds
}

/// When a caller first gave its hold back, unless it was told that this is refused.
fn given_back(evidence: &Evidence, wanted: &str) -> Option<Micros> {
    let said = evidence.calls.iter().filter(|call| match &call.ask {
        Ask::Recyclable { hold_id, .. } => hold_id == wanted,
        _ => false,
    });
    let not_refused = said.filter(|call| match &call.answer {
        Answer::Lost => true,
        Answer::Said { status, .. } => status / 100 != 4,
    });
    not_refused.map(|call| call.at).min()
}

#[cfg(test)]
mod tests {
    use super::super::sample::{self, broken, good};
    use super::*;
    use crate::evidence::Restore;

    #[test]
    fn a_nonce_that_was_given_back_may_go_to_a_filler() {
        assert_eq!(broken(check, &good()), [] as [String; 0]);
    }

    #[test]
    fn a_nonce_bound_to_two_transactions_is_found() {
        let mut evidence = good();
        let mut other = evidence.txs[0].clone();
        other.id = "tx-z".to_owned();
        evidence.txs.push(other);
        assert!(broken(check, &evidence)[0].contains("belongs to transaction tx-a"));
    }

    #[test]
    fn a_nonce_in_a_callers_hands_that_goes_to_another_caller_is_found() {
        let mut evidence = good();
        evidence.calls.push(sample::allocated(9_000, "hold-late", sample::HELD_NONCE));
        let found = broken(check, &evidence);
        assert!(found.iter().any(|what| what.contains("hold-late")), "{found:?}");
    }

    #[test]
    fn a_hold_that_a_restore_has_lost_is_no_claim() {
        let mut evidence = good();
        evidence.calls.push(sample::allocated(9_000, "hold-late", sample::HELD_NONCE));
        evidence.restores.push(Restore { kept_at: 8_000, at: 10_000 });
        assert_eq!(broken(check, &evidence), [] as [String; 0]);
    }

    #[test]
    fn a_nonce_that_was_taken_before_it_was_given_back_is_found() {
        let mut evidence = good();
        for call in &mut evidence.calls {
            if matches!(call.ask, Ask::Recyclable { .. }) {
                call.at = 9_000_000;
            }
        }
        assert_eq!(broken(check, &evidence).len(), 1);
    }

    #[test]
    fn a_transaction_found_after_a_restore_had_its_nonce_when_its_lost_attempt_was_made() {
        let mut evidence = good();
        let given_back = evidence.calls.iter().find_map(|call| match &call.ask {
            Ask::Recyclable { nonce, .. } => Some((*nonce, call.at)),
            _ => None,
        });
        let (nonce, at) = given_back.unwrap();
        let hash = "0xrecovered".to_owned();
        let mut attempt = evidence.attempts[0].clone();
        (attempt.hash, attempt.created_at) = (hash.clone(), at + 1);
        let mut tx = evidence.txs[0].clone();
        (tx.id, tx.created_at) = ("tx-r".to_owned(), at - 1);
        (tx.nonce, tx.tx_hash) = (Some(nonce), Some(hash));
        // It is accepted before the nonce is given back, gets it then, and loses all of that.
        evidence.txs.retain(|other| other.nonce != Some(nonce));
        let row = evidence.nonces.iter_mut().find(|row| row.nonce == nonce).unwrap();
        row.owner_id = tx.id.clone();
        evidence.txs.push(tx);
        assert_eq!(broken(check, &evidence).len(), 1);
        evidence.lost_attempts.push(attempt);
        assert_eq!(broken(check, &evidence), [] as [String; 0]);
    }

    #[test]
    fn a_nonce_may_be_lent_out_while_the_database_does_not_know_who_used_it() {
        let claim = |by, until, unknown| Claim { owner: String::new(), by, until, unknown };
        let found = claim(10, None, Some((20, 40)));
        for (by, until, may) in
            [(21, Some(39), true), (19, Some(39), false), (21, Some(41), false), (21, None, false)]
        {
            assert_eq!(one_after_the_other(&claim(by, until, None), &found), may, "{by} {until:?}");
        }
        let known = claim(10, None, None);
        assert!(!one_after_the_other(&claim(21, Some(39), None), &known));
    }

    #[test]
    fn a_ledger_that_names_somebody_else_is_found() {
        let mut evidence = good();
        evidence.nonces[0].owner_id = "somebody".to_owned();
        assert_eq!(broken(check, &evidence).len(), 1);
    }
}
