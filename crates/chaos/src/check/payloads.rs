//! C10: a payload is mined at most once, whatever was restored.
//!
//! Asked of the chain alone: every transfer of a run carries an amount that no other carries, so whoever
//! is paid it twice was paid twice, whatever the database knows of it. Empty transactions, with which
//! nonces are used up, carry nothing.

use std::collections::BTreeMap;

use super::{About, Findings, Rule};
use crate::evidence::{Ask, Evidence, Place};

pub(super) fn check(evidence: &Evidence) -> Findings {
    let mut findings = Findings::of(Rule::C10);
    let mut carried: BTreeMap<&str, Vec<Place<'_>>> = BTreeMap::new();
    for place in evidence.places().filter(|place| place.mined.wei != "0") {
        carried.entry(&place.mined.wei).or_default().push(place);
    }
    for (wei, places) in carried.into_iter().filter(|(_, places)| places.len() > 1) {
        let asked = evidence.calls.iter().find_map(|call| match &call.ask {
            Ask::Send { request_id, wei: asked, .. } if asked.to_string() == wei => {
                Some(request_id)
            }
            _ => None,
        });
        let whose = asked.map_or("nobody".to_owned(), |request| format!("request {request}"));
        let mined =
            |place: &Place<'_>| format!("{} at nonce {}", place.mined.hash, place.mined.nonce);
        let mined: Vec<String> = places.iter().map(mined).collect();
        findings.add(
            About::hashes(places.iter().map(|place| place.mined.hash.clone()).collect()),
            format!("the {wei} wei of {whose} were carried by {}", mined.join(" and by ")),
        );
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::sample::{broken, good};
    use super::*;
    use crate::evidence::Restore;

    #[test]
    fn payloads_that_are_mined_once_are_fine_and_so_are_empty_ones() {
        assert_eq!(broken(check, &good()), [] as [String; 0]);
    }

    #[test]
    fn an_amount_that_was_carried_twice_is_found_without_the_store() {
        let mut evidence = good();
        let mut twice = evidence.chain[1].txs[0].clone();
        twice.hash = "0xunknown".to_owned();
        twice.nonce = 9;
        evidence.chain[3].txs.push(twice);
        evidence.txs.clear();
        evidence.attempts.clear();
        let found = broken(check, &evidence);
        assert!(found[0].contains("the 1001 wei of request r-a were carried by 0xa0"), "{found:?}");
    }

    #[test]
    fn no_restore_excuses_it() {
        let mut evidence = good();
        let mut twice = evidence.chain[1].txs[0].clone();
        twice.hash = "0xagain".to_owned();
        twice.from = "0xanother".to_owned();
        evidence.chain[3].txs.push(twice);
        evidence.restores.push(Restore { kept_at: 0, at: i64::MAX });
        let lost = evidence.attempts.remove(0);
        evidence.lost_attempts.push(lost);
        assert_eq!(broken(check, &evidence).len(), 1);
    }
}
