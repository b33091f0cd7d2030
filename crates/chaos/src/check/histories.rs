//! C9: events per transaction have no gaps; a step back only by an explicit reorg event.

use super::{About, Findings, Rule};
use crate::evidence::Evidence;

/// How far along a state is; both ends are equally far.
fn rank(state: &str) -> u8 {
    match state {
        "CREATED" => 0,
        "ALLOCATED" => 1,
        "SUBMITTED" => 2,
        "TRACKING" => 3,
        _ => 4,
    }
}

/// The entries that say that the chain was reorganised: its block is gone, is another one, or has
/// fewer on top.
const REORGANISED: [&str; 3] = ["REORGED", "MINED", "NEW_FORK"];

pub(super) fn check(evidence: &Evidence) -> Findings {
    let mut findings = Findings::of(Rule::C9);
    let histories = evidence.events_by_tx();
    for tx in &evidence.txs {
        let events = histories.get(tx.id.as_str()).map_or(&[][..], Vec::as_slice);
        let mut add = |what: String| findings.add(About::tx(&tx.id), format!("{}: {what}", tx.id));
        if !events.iter().map(|event| event.seq).eq(1..=tx.events) {
            let found: Vec<u64> = events.iter().map(|event| event.seq).collect();
            add(format!("its history has {found:?}, and should have 1 to {}", tx.events));
        }
        for pair in events.windows(2) {
            let [before, after] = pair else { continue };
            let back = rank(&after.state) < rank(&before.state);
            if back && !REORGANISED.contains(&after.kind.as_str()) {
                add(format!("{} led from {} to {}", after.kind, before.state, after.state));
            }
        }
        let last = events.last().map(|event| event.state.as_str());
        if last != Some(tx.state.as_str()) {
            add(format!("it is {}, and its history ends with {last:?}", tx.state));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::sample::{broken, event, good};
    use super::*;

    #[test]
    fn a_whole_history_is_fine_and_so_is_a_reorganisation() {
        let mut evidence = good();
        assert_eq!(broken(check, &evidence), [] as [String; 0]);
        evidence.events.push(event("tx-a", 6, 60, "REORGED", "SUBMITTED", 2));
        evidence.txs[0].state = "SUBMITTED".to_owned();
        evidence.txs[0].events = 6;
        assert_eq!(broken(check, &evidence), [] as [String; 0]);
    }

    #[test]
    fn a_missing_entry_is_found() {
        let mut evidence = good();
        evidence.events.retain(|event| event.tx_id != "tx-a" || event.seq != 3);
        assert!(broken(check, &evidence)[0].contains("should have 1 to 5"));
    }

    #[test]
    fn a_step_back_without_a_reorganisation_is_found() {
        let mut evidence = good();
        evidence.events.push(event("tx-a", 6, 60, "SENT", "SUBMITTED", 2));
        evidence.txs[0].state = "SUBMITTED".to_owned();
        evidence.txs[0].events = 6;
        assert!(broken(check, &evidence)[0].contains("SENT led from CONFIRMED to SUBMITTED"));
    }

    #[test]
    fn a_state_that_no_entry_tells_is_found() {
        let mut evidence = good();
        evidence.txs[0].state = "FAILED".to_owned();
        assert!(broken(check, &evidence)[0].contains("its history ends with"));
    }
}
