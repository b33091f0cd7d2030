//! C4: tokens only rise; no commit carries a superseded token.

use std::collections::BTreeMap;

use super::{About, Findings, Rule};
use crate::evidence::{Evidence, Micros, TokenSample};

/// A commit of a lane's holder.
struct Commit<'e> {
    entry: i64,
    at: Micros,
    token: u64,
    what: String,
    tx_id: Option<&'e str>,
}

pub(super) fn check(evidence: &Evidence) -> Findings {
    let mut findings = Findings::of(Rule::C4);
    let samples = samples_by_lane(evidence);
    for (signer, samples) in &samples {
        for pair in samples.windows(2).filter(|pair| pair[1].token < pair[0].token) {
            findings.add(
                About::default(),
                format!("the token of {signer} fell from {} to {}", pair[0].token, pair[1].token),
            );
        }
    }
    for (signer, mut commits) in commits_by_lane(evidence) {
        commits.sort_by_key(|commit| commit.entry);
        let about = |commit: &Commit<'_>| commit.tx_id.map_or_else(About::default, About::tx);
        // Entries are numbered under the lane's lock, so their order is that of the commits.
        let mut highest = 0;
        for commit in &commits {
            if commit.token < highest {
                let what =
                    format!("{} came under token {}, after {highest}", commit.what, commit.token);
                findings.add(about(commit), what);
            }
            highest = highest.max(commit.token);
        }
        let seen = samples.get(signer).map_or(&[][..], Vec::as_slice);
        for commit in &commits {
            let newest_before = seen.iter().filter(|sample| sample.at < commit.at);
            let superseded = newest_before.map(|sample| sample.token).max();
            if superseded.is_some_and(|token| commit.token < token) {
                let what = format!(
                    "{} came under token {} when the lane had {superseded:?}",
                    commit.what, commit.token
                );
                findings.add(about(commit), what);
            }
        }
        let now = evidence.lanes.iter().find(|lane| lane.signer == signer);
        if let Some(lane) = now.filter(|lane| lane.token < highest) {
            let what = format!("{signer} ends with token {}, after {highest}", lane.token);
            findings.add(About::default(), what);
        }
    }
    findings
}

fn samples_by_lane(evidence: &Evidence) -> BTreeMap<&str, Vec<&TokenSample>> {
    let mut grouped: BTreeMap<&str, Vec<&TokenSample>> = BTreeMap::new();
    // What was seen of a history that is lost says nothing about the one that goes on from before it:
    // its tokens are not known to anybody there. Those from before the backup are in it.
    for sample in evidence.samples.iter().filter(|sample| !evidence.is_lost(sample.at)) {
        grouped.entry(&sample.signer).or_default().push(sample);
    }
    for samples in grouped.values_mut() {
        samples.sort_by_key(|sample| sample.at);
    }
    grouped
}

fn commits_by_lane(evidence: &Evidence) -> BTreeMap<&str, Vec<Commit<'_>>> {
    let mut grouped: BTreeMap<&str, Vec<Commit<'_>>> = BTreeMap::new();
    for event in &evidence.events {
        let Some(token) = event.token else { continue };
        grouped.entry(&event.signer).or_default().push(Commit {
            entry: event.entry,
            at: event.at,
            token,
            what: format!("{} of {} by {}", event.kind, event.tx_id, event.node),
            tx_id: Some(&event.tx_id),
        });
    }
    for event in &evidence.lane_events {
        let Some(token) = event.token else { continue };
        grouped.entry(&event.signer).or_default().push(Commit {
            entry: event.entry,
            at: event.at,
            token,
            what: format!("{} by {}", event.kind, event.node),
            tx_id: None,
        });
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::super::sample::{LANE, broken, good};
    use super::*;
    use crate::evidence::Restore;

    fn sample(at: Micros, token: u64) -> TokenSample {
        TokenSample { at, signer: LANE.to_owned(), token, owner: "n1".to_owned() }
    }

    #[test]
    fn a_takeover_is_fine() {
        let mut evidence = good();
        evidence.samples = vec![sample(1, 1), sample(2_000_000, 2)];
        assert_eq!(broken(check, &evidence), [] as [String; 0]);
    }

    #[test]
    fn a_falling_token_is_found() {
        let mut evidence = good();
        evidence.samples = vec![sample(1, 2), sample(2, 1)];
        assert!(broken(check, &evidence)[0].contains("fell from 2 to 1"));
    }

    #[test]
    fn a_token_of_a_lost_history_binds_nobody() {
        let mut evidence = good();
        evidence.samples = vec![sample(1, 1), sample(20, 9), sample(2_000_000, 2)];
        evidence.restores.push(Restore { kept_at: 10, at: 40 });
        assert_eq!(broken(check, &evidence), [] as [String; 0]);
        evidence.samples.push(sample(5, 3));
        assert!(broken(check, &evidence)[0].contains("fell from 3 to 2"), "it is in the backup");
    }

    #[test]
    fn a_commit_behind_a_newer_one_is_found() {
        let mut evidence = good();
        let last = evidence.events.iter_mut().max_by_key(|event| event.entry).unwrap();
        last.token = Some(1);
        assert!(broken(check, &evidence)[0].contains("came under token 1, after 2"));
    }

    #[test]
    fn a_commit_of_a_holder_that_was_seen_superseded_is_found() {
        let mut evidence = good();
        evidence.samples = vec![sample(1, 9)];
        assert!(broken(check, &evidence).iter().any(|what| what.contains("the lane had Some(9)")));
    }
}
