//! C7: no gap stays open, other than under a hold, which is reported: of a caller who has it in hand, or
//! may have sent with it, or has. One that nobody sent with is nobody's, whatever the ledger says.
//!
//! Looked at when everything has had far more than 30 s to settle.

use std::collections::BTreeMap;

use super::{About, Findings, Rule};
use crate::evidence::{Evidence, NonceRow, Own};

pub(super) fn check(evidence: &Evidence) -> Findings {
    let mut findings = Findings::of(Rule::C7);
    let used = evidence.mined_by_nonce();
    let ledger: BTreeMap<(&str, u64), &NonceRow> =
        evidence.nonces.iter().map(|row| ((row.signer.as_str(), row.nonce), row)).collect();
    for lane in &evidence.lanes {
        let signer = lane.signer.as_str();
        let is_used = |nonce: u64| used.contains_key(&(signer, nonce));
        let bound = evidence.txs.iter().filter(|tx| tx.signer == signer).filter_map(|tx| tx.nonce);
        let waiting = bound.filter(|nonce| !is_used(*nonce)).max();
        let on_chain = used.keys().filter(|(from, _)| *from == signer).map(|(_, nonce)| *nonce);
        // Below the highest that is on its way or was mined, nothing may be missing.
        let Some(top) = waiting.max(on_chain.max()) else { continue };
        let lowest = used.keys().filter(|(from, _)| *from == signer).map(|(_, nonce)| *nonce).min();
        let lowest = lowest.unwrap_or(0);
        for nonce in (lowest..top).filter(|nonce| !is_used(*nonce)) {
            let row = ledger.get(&(signer, nonce));
            let under_hold = row.filter(|row| row.owner_kind == "hold").is_some_and(|row| {
                let sent = |own: &Own| own.hold_id.as_deref() == Some(row.owner_id.as_str());
                match row.status.as_str() {
                    "HELD" | "SUSPECT" => true,
                    "CONSUMED" => evidence.own.iter().any(sent),
                    _ => false,
                }
            });
            if !under_hold {
                let owner = row.map(|row| format!("{} {}", row.owner_kind, row.status));
                findings.add(
                    About::nonce(signer, nonce),
                    format!("nonce {nonce} of {signer} is not used, below {top}: {owner:?}"),
                );
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::sample::{LANE, broken, good};
    use super::*;

    #[test]
    fn a_lane_without_gaps_is_fine() {
        assert_eq!(broken(check, &good()), [] as [String; 0]);
    }

    #[test]
    fn a_gap_below_a_transaction_that_waits_is_found() {
        let mut evidence = good();
        evidence.txs[0].nonce = Some(9);
        let found = broken(check, &evidence);
        assert!(found[0].contains(&format!("nonce 4 of {LANE} is not used, below 9")), "{found:?}");
        assert_eq!(found.len(), 5, "from 4 to 8");
    }

    #[test]
    fn a_gap_under_a_callers_hold_is_the_callers() {
        let mut evidence = good();
        for block in &mut evidence.chain {
            block.txs.retain(|mined| mined.nonce != super::super::sample::HELD_NONCE);
        }
        assert_eq!(broken(check, &evidence), [] as [String; 0]);
        let sent = std::mem::take(&mut evidence.own);
        assert_eq!(broken(check, &evidence).len(), 1, "nobody has sent with it");
        evidence.own = sent;
        evidence.nonces.retain(|row| row.nonce != super::super::sample::HELD_NONCE);
        assert_eq!(broken(check, &evidence).len(), 1);
    }
}
