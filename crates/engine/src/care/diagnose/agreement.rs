//! What the endpoints of the chain agree on.

use super::{Finding, Remedy, Severity, finding};
use crate::care::facts::LaneFacts;

/// For how long endpoints may be apart before that is worth a word: a new block takes its time to
/// reach everybody.
const MOMENT: f64 = 5.0;

/// Endpoints that contradict the others, by name, and what is not concluded for want of agreement.
pub(super) fn agreement(facts: &LaneFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for endpoint in &facts.endpoints {
        let Some(contradiction) = &endpoint.contradiction else { continue };
        let words = format!("endpoint {} {contradiction}", endpoint.endpoint);
        let remedy = Remedy::new(
            "replace-endpoint",
            "it is outvoted or not used meanwhile; take it out of [[chain]] endpoints, or mend it",
        );
        findings.push(finding(Severity::Warning, "endpoint-contradicts", words, Some(remedy)));
    }
    let Some(agreement) = &facts.agreement else { return findings };
    let lasts = agreement.withheld_seconds.is_some_and(|seconds| seconds >= MOMENT);
    if let (Some(why), Some(words), true) = (agreement.withheld, &agreement.words, lasts) {
        let (code, remedy) = match why {
            "contradicted" => (
                "endpoints-contradict",
                Remedy::new(
                    "find-the-liar",
                    "take the endpoint that is wrong out of [[chain]] endpoints, or add another one that \
                     decides",
                ),
            ),
            _ => (
                "too-few-voters",
                Remedy::new(
                    "mend-endpoints",
                    "start the endpoints that do not answer, name others in [[chain]] endpoints, or lower \
                     [[chain]] quorum",
                ),
            ),
        };
        let words = format!("nothing is confirmed on chain {}: {words}", facts.chain_id);
        findings.push(finding(Severity::Blocked, code, words, Some(remedy)));
    }
    findings
}
