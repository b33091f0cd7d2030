//! C11: who lies is named, by doctor and by metrics.
//!
//! Where other faults come as well, a node may be down, or without endpoints that could outvote the
//! liar: then only figures are kept. And a single lie may be over before it mattered, as a head that
//! goes back once or twice is nothing worth a word. And a node that has nothing on its way asks for no
//! receipts, and hears no lies about them. So each kind of lie that was told three times must have been
//! named at least once, by some node.

use std::collections::BTreeMap;

use super::{About, Findings, Rule};
use crate::evidence::{Evidence, LieTold};

/// So many lies of a kind are enough for one that mattered.
const OFTEN: usize = 3;

pub(super) fn check(evidence: &Evidence) -> Findings {
    let mut findings = Findings::of(Rule::C11);
    if !evidence.only_lies {
        return findings;
    }
    let mut by_kind: BTreeMap<&str, Vec<&LieTold>> = BTreeMap::new();
    for lie in &evidence.lies {
        by_kind.entry(lie.kind).or_default().push(lie);
    }
    for (kind, lies) in by_kind.into_iter().filter(|(_, lies)| lies.len() >= OFTEN) {
        let count = lies.len();
        for (who, named) in [
            ("doctor", lies.iter().any(|lie| lie.doctors > 0)),
            ("metrics", lies.iter().any(|lie| lie.metrics > 0)),
        ] {
            if !named {
                let what = format!("{kind}, {count} times, and never named by any {who}");
                findings.add(About::default(), what);
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::sample::{broken, good};
    use super::*;

    fn lie(doctors: usize, metrics: usize) -> LieTold {
        LieTold {
            at: 1,
            kind: "liar leaps ahead",
            endpoint: 0,
            nodes: 3,
            doctors,
            metrics,
            others: 0,
        }
    }

    #[test]
    fn a_kind_of_lie_that_is_never_named_is_found() {
        let mut evidence = good();
        evidence.only_lies = true;
        assert_eq!(broken(check, &evidence), [] as [String; 0]);
        evidence.lies = vec![lie(0, 1), lie(0, 0)];
        assert_eq!(broken(check, &evidence), [] as [String; 0], "too few to tell");
        evidence.lies.push(lie(0, 0));
        let found = broken(check, &evidence);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("liar leaps ahead, 3 times, and never named by any doctor"));
        evidence.lies.push(lie(1, 0));
        assert_eq!(broken(check, &evidence), [] as [String; 0]);
    }

    #[test]
    fn where_more_goes_wrong_nobody_can_tell() {
        let mut evidence = good();
        evidence.lies = vec![lie(0, 0)];
        assert_eq!(broken(check, &evidence), [] as [String; 0]);
    }
}
