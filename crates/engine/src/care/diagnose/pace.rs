//! Whether the chain makes blocks, and whether it gives the finality that is waited for.

use std::time::Duration;

use stile_domain::no_block;

use super::{Finding, Remedy, Severity, finding};
use crate::care::facts::{LaneFacts, PaceFacts};

/// How the chain's blocks come, and what that means for what waits.
pub(super) fn pace(facts: &LaneFacts) -> Vec<Finding> {
    let Some(pace) = &facts.pace else { return Vec::new() };
    let mut findings = Vec::new();
    findings.extend(unfollowed(facts, pace));
    findings.extend(without_receipt(facts, pace));
    findings.extend(stalled(facts, pace));
    findings.extend(on_demand(facts, pace));
    findings.extend(lacking(facts, pace));
    findings
}

/// Endpoints answer, and the newest blocks cannot be taken note of.
fn unfollowed(facts: &LaneFacts, pace: &PaceFacts) -> Option<Finding> {
    let why = pace.unfollowed.as_ref()?;
    let words =
        format!("chain {} cannot be followed, so nothing on it is noticed: {why}", facts.chain_id);
    let waiting = facts.in_flight + facts.queued + pace.unconfirmed;
    let severity = if waiting > 0 { Severity::Blocked } else { Severity::Warning };
    let remedy = Remedy::new(
        "mend-endpoints",
        "mend the node, or name another one in [[chain]] endpoints; the rest goes on by itself",
    );
    Some(finding(severity, "not-followed", words, Some(remedy)))
}

/// What is in a block is not known to be without its receipt.
fn without_receipt(facts: &LaneFacts, pace: &PaceFacts) -> Option<Finding> {
    let count = Some(pace.without_receipt).filter(|count| *count > 0)?;
    let words = format!(
        "{count} transactions of this signer are in blocks, and no endpoint of chain {} gives receipts of them that can \
         be read",
        facts.chain_id
    );
    let remedy = Remedy::new(
        "mend-endpoints",
        "have the node keep receipts of its transactions, or name another one in [[chain]] endpoints; they are asked for \
         again and again",
    );
    Some(finding(Severity::Warning, "no-receipt", words, Some(remedy)))
}

/// The chain makes no blocks. It stays as bad as it is for as long as that lasts, whatever is done
/// with the transactions meanwhile.
fn stalled(facts: &LaneFacts, pace: &PaceFacts) -> Option<Finding> {
    let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let silent = seconds(pace.standstill_seconds?);
    let waiting = facts.in_flight + facts.queued + pace.unconfirmed;
    let severity = match waiting {
        0 => Severity::Info,
        _ if pace.is_long => Severity::Blocked,
        _ => Severity::Warning,
    };
    let mut words = format!(
        "chain {} makes no blocks: {}",
        facts.chain_id,
        no_block(silent, pace.usual_seconds.map(seconds))
    );
    if waiting > 0 {
        words.push_str(&format!("; {waiting} transactions of this signer wait"));
    }
    if facts.in_flight == 0 && !pace.is_on_demand {
        // Nobody has tried.
        words.push_str("; it may be that it makes blocks only when it has transactions");
    }
    let remedy = Remedy::new(
        "mend-chain",
        "look at the chain's nodes and at what makes its blocks; nothing has to be sent again, and the rest goes on by \
         itself with the next block",
    );
    Some(finding(severity, "chain-stalled", words, Some(remedy)))
}

/// The chain makes blocks only when it has transactions.
fn on_demand(facts: &LaneFacts, pace: &PaceFacts) -> Option<Finding> {
    if !pace.is_on_demand {
        return None;
    }
    let chain = facts.chain_id;
    let mut words = format!("chain {chain} makes blocks only when it has transactions");
    if pace.unburied == 0 {
        return Some(finding(Severity::Info, "mines-on-demand", words, None));
    }
    words.push_str(&format!(
        ", and {} transactions of this signer wait for blocks on top of theirs: those come only with further transactions",
        pace.unburied
    ));
    let remedy = Remedy::new(
        "finality-0",
        "ask for finality {\"confirmations\": 0}, or set confirmations.required = 0: mined is enough there; any \
         further transaction brings a block",
    );
    Some(finding(Severity::Warning, "mines-on-demand", words, Some(remedy)))
}

/// The chain has no block of a name that is waited for.
fn lacking(facts: &LaneFacts, pace: &PaceFacts) -> Option<Finding> {
    let tags: Vec<&str> = pace.lacking.iter().map(|lacking| lacking.tag).collect();
    if tags.is_empty() {
        return None;
    }
    let (chain, tags) = (facts.chain_id, tags.join(" nor "));
    let waiting: u64 = pace.lacking.iter().map(|lacking| lacking.waiting).sum();
    let is_default = pace.lacking.iter().any(|lacking| lacking.is_default);
    let mut words = format!("chain {chain} calls no block {tags}");
    if waiting > 0 {
        words.push_str(&format!(
            "; {waiting} transactions of this signer wait for that, and it does not come"
        ));
    }
    if is_default {
        words.push_str(
            "; confirmations.finality asks for it, so requests that name no finality are refused",
        );
    }
    let remedy = Remedy::new(
        "count-blocks",
        "ask for a number of confirmations instead: confirmations.required, or the finality of a request",
    );
    Some(finding(Severity::Warning, "finality-unavailable", words, Some(remedy)))
}
