//! C8: the same request again is the same transaction; the same id with another payload is refused.

use std::collections::BTreeMap;

use super::{About, Findings, Rule};
use crate::evidence::{Ask, Call, Evidence};

pub(super) fn check(evidence: &Evidence) -> Findings {
    let mut findings = Findings::of(Rule::C8);
    let mut requests: BTreeMap<(&str, &str), Vec<(&Call, u64)>> = BTreeMap::new();
    for call in &evidence.calls {
        if let Ask::Send { signer, request_id, wei, .. } = &call.ask {
            requests.entry((signer, request_id)).or_default().push((call, *wei));
        }
    }
    let txs = evidence.txs_by_id();
    for ((_, request), calls) in requests {
        let taken: Vec<&(&Call, u64)> =
            calls.iter().filter(|(call, _)| call.answer.is_success()).collect();
        let about = |call: &Call| call.answer.tx_id().map_or_else(About::default, About::tx);
        // What a restore has lost is new when it is asked for again.
        let new = taken
            .iter()
            .filter(|(call, _)| call.answer.status() == Some(202) && !evidence.is_lost_call(call));
        if new.count() > 1 {
            findings.add(about(taken[0].0), format!("request {request} was new more than once"));
        }
        for (call, wei) in &taken {
            let tx = call.answer.tx_id().and_then(|id| txs.get(id));
            if let Some(tx) = tx.filter(|tx| tx.wei != wei.to_string()) {
                findings.add(
                    About::tx(&tx.id),
                    format!("request {request} with {wei} wei was answered with {} wei", tx.wei),
                );
            }
        }
        for (call, wei) in &calls {
            let refused = call.answer.code() == Some("request-id-reused");
            let with_other = calls.iter().any(|(_, other)| other != wei);
            if refused && !with_other {
                findings.add(
                    about(call),
                    format!("request {request} was refused as another one, and there is none"),
                );
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::sample::{broken, good, said};
    use super::*;
    use crate::evidence::{Answer, Restore};

    fn again(evidence: &mut Evidence, wei: u64, answer: Answer) {
        let mut call = evidence.calls[0].clone();
        if let Ask::Send { wei: asked, .. } = &mut call.ask {
            *asked = wei;
        }
        call.answer = answer;
        evidence.calls.push(call);
    }

    fn refusal() -> Answer {
        Answer::Said {
            status: 422,
            code: Some("request-id-reused".to_owned()),
            tx_id: Some("tx-a".to_owned()),
            hold_id: None,
            nonce: None,
        }
    }

    #[test]
    fn the_same_again_and_another_payload_refused_are_fine() {
        let mut evidence = good();
        again(&mut evidence, 1_001, said(200, Some("tx-a"), None, Some(0)));
        again(&mut evidence, 5, refusal());
        assert_eq!(broken(check, &evidence), [] as [String; 0]);
    }

    #[test]
    fn another_payload_that_is_taken_is_found() {
        let mut evidence = good();
        again(&mut evidence, 5, said(200, Some("tx-a"), None, Some(0)));
        assert!(broken(check, &evidence)[0].contains("with 5 wei was answered with 1001 wei"));
    }

    #[test]
    fn the_same_that_is_new_again_is_found() {
        let mut evidence = good();
        again(&mut evidence, 1_001, said(202, Some("tx-a"), None, Some(0)));
        assert!(broken(check, &evidence)[0].contains("new more than once"));
    }

    #[test]
    fn what_a_restore_has_lost_is_new_again() {
        let mut evidence = good();
        again(&mut evidence, 1_001, said(202, Some("tx-a"), None, Some(0)));
        evidence.calls.last_mut().unwrap().ended_at = 90_000;
        evidence.calls.last_mut().unwrap().at = 80_000;
        evidence.restores.push(Restore { kept_at: 40_000, at: 70_000 });
        assert_eq!(broken(check, &evidence), [] as [String; 0]);
    }

    #[test]
    fn the_same_that_is_refused_is_found() {
        let mut evidence = good();
        again(&mut evidence, 1_001, refusal());
        assert!(broken(check, &evidence)[0].contains("there is none"));
    }
}
