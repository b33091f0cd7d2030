//! From facts to plain words. Nothing here asks anybody anything.
//!
//! | file | what is in it |
//! |---|---|
//! | `diagnose` | what a diagnosis is; the holder, the endpoints, a pause, what waits |
//! | `step` | how the lane stands to its chain |
//! | `head` | the transaction that the chain waits for |

mod head;
mod step;
#[cfg(test)]
mod tests;

use serde::Serialize;

use self::head::head;
pub(super) use self::step::claimed;
use self::step::out_of_step;
use super::facts::LaneFacts;

/// What is the matter with a lane.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    /// Whether nothing keeps the lane from moving.
    pub healthy: bool,
    /// All of it in a sentence.
    pub summary: String,
    /// What was found, the worst first.
    pub findings: Vec<Finding>,
    /// What it was concluded from.
    pub facts: LaneFacts,
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Its name.
    pub code: String,
    /// How bad it is.
    pub severity: Severity,
    /// In words.
    pub words: String,
    /// What to do about it.
    pub remedy: Option<Remedy>,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The lane does not move because of it.
    Blocked,
    /// It may stop moving because of it.
    Warning,
    /// Good to know.
    Info,
}

/// What to do about a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Remedy {
    /// Its name.
    pub kind: String,
    /// In words.
    pub words: String,
    /// Whether a person must say first that a nonce was never sent.
    pub needs_attestation: bool,
    /// Whether Stile does it by itself before long.
    pub automatic: bool,
}

impl Remedy {
    fn new(kind: &str, words: impl Into<String>) -> Self {
        Self {
            kind: kind.to_owned(),
            words: words.into(),
            needs_attestation: false,
            automatic: false,
        }
    }

    fn automatic(self) -> Self {
        Self { automatic: true, ..self }
    }
}

fn finding(
    severity: Severity,
    code: &str,
    words: impl Into<String>,
    remedy: Option<Remedy>,
) -> Finding {
    Finding { code: code.to_owned(), severity, words: words.into(), remedy }
}

/// Concludes.
pub(super) fn diagnose(facts: LaneFacts) -> Diagnosis {
    let mut findings = Vec::new();
    findings.extend(holder(&facts));
    findings.extend(endpoints(&facts));
    findings.extend(out_of_step(&facts));
    if let Some(tx) = facts.head.as_ref().and_then(|head| head.tx.as_ref()) {
        findings.extend(head(&facts, tx));
    }
    findings.extend(not_owned(&facts));
    findings.extend(paused(&facts, &findings));
    findings.extend(waiting(&facts));
    findings.sort_by_key(|finding| finding.severity);
    let worst = findings.first().filter(|worst| worst.severity < Severity::Info);
    let summary = match worst {
        Some(worst) => worst.words.clone(),
        None => "nothing keeps this signer from moving".to_owned(),
    };
    let healthy = !findings.iter().any(|finding| finding.severity == Severity::Blocked);
    Diagnosis { healthy, summary, findings, facts }
}

fn holder(facts: &LaneFacts) -> Option<Finding> {
    let (holder, work) = (&facts.holder, facts.queued + facts.in_flight);
    if holder.lease_seconds_left > 0.0 {
        return None;
    }
    let words = format!(
        "nobody holds this signer: the lease of node {} has run out, and {work} transactions wait",
        holder.node_id
    );
    let remedy = Remedy::new(
        "start-a-node",
        "a running node that can reach the database takes it within two seconds; check that there is one",
    );
    let severity = if work > 0 { Severity::Blocked } else { Severity::Info };
    Some(finding(severity, "no-holder", words, Some(remedy.automatic())))
}

fn endpoints(facts: &LaneFacts) -> Vec<Finding> {
    let silent: Vec<String> = facts
        .endpoints
        .iter()
        .filter(|endpoint| endpoint.latest.is_none())
        .map(|endpoint| {
            let why = endpoint.why.as_deref().unwrap_or("does not answer");
            format!("{}: {why}", endpoint.endpoint)
        })
        .collect();
    if silent.is_empty() {
        return Vec::new();
    }
    let all = silent.len() == facts.endpoints.len();
    let (severity, code, words) = if all {
        let words =
            format!("no endpoint of chain {} answers ({})", facts.chain_id, silent.join("; "));
        (Severity::Blocked, "no-endpoint", words)
    } else {
        let words = format!(
            "an endpoint of chain {} does not answer ({})",
            facts.chain_id,
            silent.join("; ")
        );
        (Severity::Warning, "endpoint-down", words)
    };
    let remedy =
        Remedy::new("mend-endpoints", "start the node, or name another one in [[chain]] endpoints");
    vec![finding(severity, code, words, Some(remedy))]
}

/// Whose lane it is.
fn not_owned(facts: &LaneFacts) -> Option<Finding> {
    let why = facts.elsewhere?.words();
    let words = format!("the signer is not Stile's, and nothing gets a nonce here: {why}");
    let remedy = Remedy::new("give-the-lane-to-stile", why);
    Some(finding(Severity::Blocked, "not-owned", words, Some(remedy)))
}

/// The pause itself, after what may have led to it.
fn paused(facts: &LaneFacts, found: &[Finding]) -> Option<Finding> {
    let reason = facts.paused.as_ref()?;
    let words = format!("the signer is paused, and nothing gets a nonce: {reason}");
    let told =
        found.iter().any(|finding| finding.remedy.as_ref().is_some_and(|r| r.kind == "resume"));
    let remedy = Remedy::new("resume", "give out nonces again once the reason is gone");
    Some(finding(Severity::Blocked, "paused", words, (!told).then_some(remedy)))
}

/// What waits for a nonce.
fn waiting(facts: &LaneFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(trouble) = &facts.signer_trouble {
        let words = format!(
            "the signer gives no signatures, and {} transactions wait: {trouble}",
            facts.queued
        );
        let remedy =
            Remedy::new("mend-signer", "start the signing service; the rest goes on by itself");
        findings.push(finding(Severity::Blocked, "signer-unavailable", words, Some(remedy)));
    }
    if facts.in_flight >= facts.max_in_flight {
        let words = format!(
            "{} transactions are in flight, as many as lane.max_in_flight allows; {} wait",
            facts.in_flight, facts.queued
        );
        findings.push(finding(Severity::Info, "window-full", words, None));
    }
    if facts.queued > 0 && !facts.can_sign {
        let words =
            format!("{} transactions wait, and this node has no key for the signer", facts.queued);
        findings.push(finding(Severity::Warning, "no-key", words, None));
    }
    findings
}
