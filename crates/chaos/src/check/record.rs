//! C3: every transaction on the wire was committed as an attempt before it was first seen there.

use std::collections::{BTreeMap, BTreeSet};

use super::{About, Findings, Rule};
use crate::evidence::{Attempt, Evidence, OnRecord};

pub(super) fn check(evidence: &Evidence) -> Findings {
    let mut findings = Findings::of(Rule::C3);
    let attempts: BTreeMap<&str, &Attempt> =
        evidence.attempts.iter().map(|attempt| (attempt.hash.as_str(), attempt)).collect();
    for sent in &evidence.wire {
        let Some(attempt) = attempts.get(sent.hash.as_str()) else {
            let what = format!("{} was sent to {} and is no attempt", sent.hash, sent.endpoint);
            findings.add(About::hash(&sent.hash), what);
            continue;
        };
        let late = match sent.record {
            OnRecord::Yes => false,
            OnRecord::No => true,
            OnRecord::Unknown => attempt.created_at > sent.at,
        };
        if late {
            let what = format!("{} was sent to {} before it was stored", sent.hash, sent.endpoint);
            findings.add(About::tx(&attempt.tx_id), what);
        }
    }
    // However it came there: what is on the chain is on record, or somebody else's.
    let lanes: BTreeSet<&str> = evidence.lanes.iter().map(|lane| lane.signer.as_str()).collect();
    let own: BTreeSet<&str> = evidence.own.iter().map(|own| own.hash.as_str()).collect();
    for place in evidence.places() {
        let (hash, from) = (place.mined.hash.as_str(), place.mined.from.as_str());
        if lanes.contains(from) && !attempts.contains_key(hash) && !own.contains(hash) {
            let what = format!("{hash} of {from} is in block {} and nobody's", place.block.height);
            findings.add(About::hash(hash), what);
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::sample::{broken, good};
    use super::*;

    #[test]
    fn what_was_stored_before_it_was_sent_is_fine() {
        let mut evidence = good();
        evidence.wire[0].record = OnRecord::Unknown;
        assert_eq!(broken(check, &evidence), [] as [String; 0]);
    }

    #[test]
    fn bytes_that_are_no_attempt_are_found() {
        let mut evidence = good();
        evidence.wire[0].hash = "0xresigned".to_owned();
        assert!(broken(check, &evidence)[0].contains("is no attempt"));
    }

    #[test]
    fn bytes_that_were_not_committed_yet_are_found() {
        let mut evidence = good();
        evidence.wire[0].record = OnRecord::No;
        assert!(broken(check, &evidence)[0].contains("before it was stored"));
    }

    #[test]
    fn where_the_store_was_away_the_times_tell() {
        let mut evidence = good();
        evidence.wire[0].record = OnRecord::Unknown;
        evidence.wire[0].at = evidence.attempts[0].created_at - 1;
        assert_eq!(broken(check, &evidence).len(), 1);
    }

    #[test]
    fn a_mined_transaction_that_is_nobodys_is_found() {
        let mut evidence = good();
        evidence.own.clear();
        assert!(broken(check, &evidence)[0].contains("nobody's"));
    }
}
