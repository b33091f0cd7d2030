//! C12: nothing goes where only Redis says that a node is, and nobody who is only there gets a lane.

use std::collections::BTreeSet;

use super::{About, Findings, Rule};
use crate::evidence::Evidence;

/// So much of a call is shown.
const SHOWN: usize = 300;

pub(super) fn check(evidence: &Evidence) -> Findings {
    let mut findings = Findings::of(Rule::C12);
    for call in &evidence.astray {
        let shown: String = call.chars().take(SHOWN).collect();
        findings
            .add(About::default(), format!("a call to a node that somebody made up: {shown:?}"));
    }
    let samples = evidence.samples.iter();
    let strangers = samples.filter(|sample| !is_node(&sample.owner));
    let strangers: BTreeSet<(&str, &str)> =
        strangers.map(|sample| (sample.signer.as_str(), sample.owner.as_str())).collect();
    for (signer, owner) in strangers {
        let what = format!("the lane of {signer} was given to {owner}, which is no node");
        findings.add(About::default(), what);
    }
    findings
}

/// The nodes of a run are `n0`, `n1` and so on.
fn is_node(name: &str) -> bool {
    name.strip_prefix('n').is_some_and(|number| number.parse::<usize>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::super::sample::{broken, good};
    use super::*;
    use crate::evidence::TokenSample;

    #[test]
    fn what_goes_astray_is_found() {
        let mut evidence = good();
        assert_eq!(broken(check, &evidence), [] as [String; 0]);
        evidence.astray.push("POST /api/v1/tx HTTP/1.1".to_owned());
        let found = broken(check, &evidence);
        assert!(found.len() == 1 && found[0].contains("POST /api/v1/tx"), "{found:?}");
    }

    #[test]
    fn a_lane_of_nobody_is_found() {
        let mut evidence = good();
        for (at, owner) in [(1, "n0"), (2, "n12"), (3, "made-up-1"), (4, "made-up-1")] {
            let (signer, owner) = ("0xab".to_owned(), owner.to_owned());
            evidence.samples.push(TokenSample { at, signer, token: 1, owner });
        }
        let found = broken(check, &evidence);
        assert!(found.len() == 1 && found[0].contains("made-up-1, which is no node"), "{found:?}");
    }
}
