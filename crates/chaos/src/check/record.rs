//! C3: every transaction on the wire was committed as an attempt before it was first seen there.

use std::collections::BTreeSet;

use super::{About, Findings, Rule};
use crate::evidence::{Attempt, Evidence, OnRecord, Sent};

pub(super) fn check(evidence: &Evidence) -> Findings {
    let mut findings = Findings::of(Rule::C3);
    let attempts = evidence.attempts_by_hash();
    for sent in &evidence.wire {
        let Some(attempt) = attempts.get(sent.hash.as_str()) else {
            let what = format!("{} was sent to {} and is no attempt", sent.hash, sent.endpoint);
            findings.add(About::hash(&sent.hash), what);
            continue;
        };
        let late = match sent.record {
            OnRecord::Yes => false,
            // Bytes of a history that was lost, which had left their node before that and were held
            // up on their way.
            OnRecord::No => !is_of_lost_history(evidence, attempt, sent),
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

fn is_of_lost_history(evidence: &Evidence, attempt: &Attempt, sent: &Sent) -> bool {
    let of_lost = evidence.lost_attempts.iter().any(|lost| lost.hash == attempt.hash);
    of_lost && evidence.restores.iter().any(|restore| restore.kept_at <= sent.at)
}

#[cfg(test)]
mod tests {
    use super::super::sample::{broken, good};
    use super::*;
    use crate::evidence::Restore;

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
    fn an_attempt_of_a_lost_history_was_an_attempt() {
        let mut evidence = good();
        let lost = evidence.attempts.remove(0);
        assert_eq!(broken(check, &evidence).len(), 2, "on the wire, and on the chain");
        evidence.lost_attempts.push(lost);
        assert_eq!(broken(check, &evidence), [] as [String; 0]);
        evidence.wire[0].record = OnRecord::No;
        assert_eq!(broken(check, &evidence).len(), 1, "nothing was restored by then");
        evidence.restores.push(Restore { kept_at: 0, at: evidence.wire[0].at });
        assert_eq!(broken(check, &evidence), [] as [String; 0]);
    }

    #[test]
    fn a_mined_transaction_that_is_nobodys_is_found() {
        let mut evidence = good();
        evidence.own.clear();
        assert!(broken(check, &evidence)[0].contains("nobody's"));
    }
}
