//! From facts to plain words. Nothing here asks anybody anything.
//!
//! | file | what is in it |
//! |---|---|
//! | `diagnose` | what a diagnosis is; the holder, the endpoints, a pause, what waits |
//! | `agreement` | what the endpoints agree on |
//! | `unreadable` | what endpoints answer that cannot be read |
//! | `step` | how the lane stands to its chain |
//! | `head` | the transaction that the chain waits for |
//! | `pace` | whether the chain makes blocks, and gives the finality that is asked for |

mod agreement;
mod head;
mod pace;
mod step;
#[cfg(test)]
mod tests;
mod unreadable;

use serde::Serialize;

use self::agreement::agreement;
use self::head::head;
use self::pace::pace;
pub(super) use self::step::claimed;
use self::step::out_of_step;
use self::unreadable::unreadable;
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
    findings.extend(read_only(&facts));
    findings.extend(lacking(&facts));
    findings.extend(agreement(&facts));
    findings.extend(unreadable(&facts));
    findings.extend(pace(&facts));
    findings.extend(out_of_step(&facts));
    if let Some(tx) = facts.head.as_ref().and_then(|head| head.tx.as_ref()) {
        findings.extend(head(&facts, tx));
    }
    findings.extend(not_owned(&facts));
    findings.extend(paused(&facts, &findings));
    findings.extend(restored(&facts));
    findings.extend(unquoted(&facts));
    findings.extend(waiting(&facts));
    findings.extend(unestimated(&facts));
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
    let remedy = Remedy::new(
        "mend-endpoints",
        "start the node, have its provider allow more calls, or name another one in [[chain]] endpoints",
    );
    vec![finding(severity, code, words, Some(remedy))]
}

/// What is not possible because an endpoint cannot do what others can.
fn lacking(facts: &LaneFacts) -> Option<Finding> {
    let named = facts.endpoints.iter().filter(|endpoint| !endpoint.impossible.is_empty());
    let named: Vec<String> =
        named.map(|it| format!("{}: {}", it.endpoint, it.impossible.join("; "))).collect();
    if named.is_empty() {
        return None;
    }
    let (chain, which) = (facts.chain_id, named.join(". "));
    let words = format!("what an endpoint of chain {chain} makes impossible: {which}");
    let remedy = Remedy::new(
        "know-the-endpoint",
        "nothing has to be done unless it is needed: `stile chain show` has what each endpoint can do, and what is \
         done instead; another node program or provider may be able to do more",
    );
    Some(finding(Severity::Info, "endpoint-lacks", words, Some(remedy)))
}

/// Endpoints that take no transactions, as far as this node has tried them.
fn read_only(facts: &LaneFacts) -> Option<Finding> {
    let named = facts.endpoints.iter().filter_map(|endpoint| {
        Some(format!("{}: {}", endpoint.endpoint, endpoint.read_only.as_ref()?))
    });
    let named: Vec<String> = named.collect();
    if named.is_empty() {
        return None;
    }
    let (chain, which) = (facts.chain_id, named.join("; "));
    let anybody = facts.endpoints.iter().any(|it| it.usable && it.read_only.is_none());
    let (severity, code, words) = if !anybody {
        let words = format!(
            "no endpoint of chain {chain} that answers takes transactions ({which}); nothing is sent, and nothing is given up"
        );
        (Severity::Blocked, "no-endpoint-takes", words)
    } else {
        let words = format!(
            "an endpoint of chain {chain} takes no transactions and is used for reading only ({which})"
        );
        (Severity::Info, "endpoint-read-only", words)
    };
    let remedy = Remedy::new(
        "mend-endpoints",
        "have the provider allow eth_sendRawTransaction, or name another one in [[chain]] endpoints; it is tried again now and then",
    );
    Some(finding(severity, code, words, Some(remedy)))
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
    if facts.paused_by_person {
        let words = format!("a person has paused the signer, and nothing gets a nonce: {reason}");
        let remedy = format!(
            "repair leaves the pause alone; once the reason is gone: stile signer resume {}",
            facts.signer
        );
        let remedy = Remedy::new("resume-by-hand", remedy);
        return Some(finding(Severity::Blocked, "paused", words, Some(remedy)));
    }
    let words = format!("the signer is paused, and nothing gets a nonce: {reason}");
    let told =
        found.iter().any(|finding| finding.remedy.as_ref().is_some_and(|r| r.kind == "resume"));
    let remedy = Remedy::new("resume", "give out nonces again once the reason is gone");
    Some(finding(Severity::Blocked, "paused", words, (!told).then_some(remedy)))
}

/// What waits for an estimate of its gas.
fn unestimated(facts: &LaneFacts) -> Option<Finding> {
    let first = facts.unestimated.first()?;
    let said = first.error.as_deref().unwrap_or("it was not tried here yet");
    let words = format!(
        "{} transactions wait for an estimate of their gas and hold up nobody; the oldest is {}: {said}",
        facts.unestimated.len(),
        first.tx_id
    );
    let remedy = Remedy::new(
        "estimate-again",
        "it is tried again with growing pauses, tx.estimate.tries times, and then refused; a request \
         with a gas limit needs no estimate",
    );
    Some(finding(Severity::Warning, "estimating", words, Some(remedy.automatic())))
}

/// What waits because the database was restored.
fn restored(facts: &LaneFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if facts.lacks_synchronous_standby {
        let words = "store.failover says that failovers go to a synchronous standby, and the primary waits for none \
                     (synchronous_standby_names is empty): a failover now could lose commits unnoticed";
        let remedy = Remedy::new(
            "set-synchronous-standby-names",
            "name the standby in synchronous_standby_names, or set store.failover = \"ask\"",
        );
        findings.push(finding(Severity::Warning, "no-synchronous-standby", words, Some(remedy)));
    }
    let Some(restored) = facts.restored.as_ref().filter(|it| it.open || it.waiting > 0) else {
        return findings;
    };
    let ids: Vec<String> = restored.tx_ids.iter().map(ToString::to_string).collect();
    let mut words = match restored.waiting {
        0 => "the database was restored. What is handed over now is not sent by itself: it may have been sent before"
            .to_owned(),
        count => format!(
            "the database was restored. {count} transactions are not sent by themselves, since they may have been sent \
             before: a person has to say of each whether it was ({})",
            ids.join(", ")
        ),
    };
    if restored.unread > 0 {
        words.push_str(&format!(
            ". What used {} nonces has not been read from the chain yet",
            restored.unread
        ));
    }
    if let Some(endpoint) = &restored.pooled_at {
        words.push_str(&format!(
            ". {endpoint} has transactions in its pool that the database does not know"
        ));
    }
    if restored.begun {
        words.push_str(
            "; the database had lost this signer, so what its account sent before is not read, and --never-sent needs \
             --force",
        );
    }
    let signer = &facts.signer;
    let remedy = Remedy::new(
        "say-what-was-sent",
        format!(
            "stile signer restored {signer} shows each with its recipient and amount, and what the chain has; then stile \
             tx restored TX_ID --never-sent (send it) or --was-sent (close it), or stile signer restored {signer} with \
             one of the two for all of them"
        ),
    );
    findings.push(finding(Severity::Blocked, "restored", words, Some(remedy)));
    findings
}

/// Endpoints answer, and none says what gas costs: without that nothing new is signed.
fn unquoted(facts: &LaneFacts) -> Option<Finding> {
    let why = facts.unquoted.as_ref()?;
    let words = format!(
        "no endpoint of chain {} says what gas costs ({why}); {} transactions wait for it",
        facts.chain_id, facts.queued
    );
    let severity = if facts.queued > 0 { Severity::Blocked } else { Severity::Warning };
    let remedy = Remedy::new(
        "mend-endpoints",
        "have the provider allow eth_gasPrice or eth_feeHistory, or name another one in [[chain]] endpoints; the rest \
         goes on by itself",
    );
    Some(finding(severity, "no-fee-quote", words, Some(remedy)))
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
