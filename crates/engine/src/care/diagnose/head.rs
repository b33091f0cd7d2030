//! The transaction that the chain waits for.

use stile_domain::{Fees, Nonce, SubState, TxState, U256};

use super::{Finding, Remedy, Severity, finding};
use crate::care::facts::{AttemptFacts, LaneFacts, TxFacts};

/// The transaction that the chain waits for.
pub(super) fn head(facts: &LaneFacts, tx: &TxFacts) -> Vec<Finding> {
    let nonce = facts.head.as_ref().map_or(0, |head| head.nonce);
    let Some(newest) = &tx.newest else { return Vec::new() };
    if !matches!(tx.state, TxState::Allocated | TxState::Submitted) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    match tx.sub_state {
        Some(SubState::InsufficientFunds) => findings.push(unfunded(facts, tx, newest, nonce)),
        Some(SubState::Rejected) => findings.push(rejected(tx, nonce)),
        // Whatever was said when it was sent: no block can have it.
        _ if cannot_pay(facts, newest) => findings.push(unfunded(facts, tx, newest, nonce)),
        _ => findings.extend(underpriced(facts, tx, newest, nonce)),
    }
    let asked: Vec<bool> = facts.endpoints.iter().filter_map(|said| said.knows).collect();
    if findings.is_empty() && !asked.is_empty() {
        findings.push(if asked.contains(&true) {
            let words = format!(
                "nonce {nonce} ({}) is with the endpoints and waits for a block, {:.0} s after it was handed over",
                tx.tx_id, tx.age_seconds
            );
            let stale = tx.sub_state == Some(SubState::Stale);
            let severity = if stale { Severity::Warning } else { Severity::Info };
            finding(severity, "waits-for-a-block", words, None)
        } else if tx.state == TxState::Allocated {
            let words =
                format!("no endpoint has taken nonce {nonce} ({}) yet{}", tx.tx_id, said(newest));
            let remedy = Remedy::new("resend", "its stored bytes are sent again").automatic();
            finding(Severity::Blocked, "not-taken", words, Some(remedy))
        } else {
            let words = format!(
                "no endpoint knows nonce {nonce} ({}, sent {} times): their pools have dropped it{}",
                tx.tx_id,
                tx.sends,
                said(newest)
            );
            let remedy = Remedy::new("resend", "its stored bytes are sent again").automatic();
            finding(Severity::Blocked, "dropped", words, Some(remedy))
        });
    }
    findings
}

/// What the endpoints said last, if one refused.
fn said(newest: &AttemptFacts) -> String {
    let Some(said) = newest.said.as_ref().and_then(|said| said.as_array()) else {
        return String::new();
    };
    let texts = said.iter().filter_map(|one| {
        let text = one.get("text")?.as_str().filter(|text| *text != "accepted")?;
        Some(format!("{} said: {text}", one.get("endpoint")?.as_str()?))
    });
    let texts: Vec<String> = texts.collect();
    if texts.is_empty() { String::new() } else { format!("; {}", texts.join("; ")) }
}

fn unfunded(facts: &LaneFacts, tx: &TxFacts, newest: &AttemptFacts, nonce: Nonce) -> Finding {
    let balance = facts.balance.as_deref().unwrap_or("an unknown amount of");
    let cost = newest.cost.as_deref().unwrap_or("more");
    let words = format!(
        "the account cannot pay for nonce {nonce} ({}): it has {balance} wei, and {cost} wei may be needed; nothing is sent",
        tx.tx_id
    );
    let remedy = Remedy::new(
        "fund",
        format!(
            "send the account at least {} wei; the rest goes on by itself",
            missing(facts, newest)
        ),
    );
    finding(Severity::Blocked, "insufficient-funds", words, Some(remedy))
}

fn cannot_pay(facts: &LaneFacts, newest: &AttemptFacts) -> bool {
    has_and_needs(facts, newest).is_some_and(|(has, needs)| has < needs)
}

fn missing(facts: &LaneFacts, newest: &AttemptFacts) -> String {
    match has_and_needs(facts, newest) {
        Some((has, needs)) => needs.saturating_sub(has).to_string(),
        None => "enough".to_owned(),
    }
}

fn has_and_needs(facts: &LaneFacts, newest: &AttemptFacts) -> Option<(U256, U256)> {
    Some((facts.balance.as_ref()?.parse().ok()?, newest.cost.as_ref()?.parse().ok()?))
}

fn rejected(tx: &TxFacts, nonce: Nonce) -> Finding {
    let why = tx.error.as_deref().unwrap_or("no reason is on record");
    let words = format!("every endpoint refuses nonce {nonce} ({}): {why}", tx.tx_id);
    let remedy = Remedy::new(
        "give-up",
        "after three refusals an empty transaction takes its nonce, and it is FAILED",
    )
    .automatic();
    finding(Severity::Blocked, "rejected", words, Some(remedy))
}

/// Its offer, held against the market.
fn underpriced(
    facts: &LaneFacts,
    tx: &TxFacts,
    newest: &AttemptFacts,
    nonce: Nonce,
) -> Option<Finding> {
    let market: u128 = facts.market_fee_per_gas.as_ref()?.parse().ok()?;
    let offer = newest.fees.most();
    let said_so = tx.sub_state == Some(SubState::Underpriced);
    if offer >= market && !said_so {
        return None;
    }
    let kind = match newest.fees {
        Fees::Market { .. } => "base fee",
        Fees::Legacy { .. } => "price",
    };
    let words = format!(
        "nonce {nonce} ({}) offers at most {offer} wei for a unit of gas, and the chain's {kind} is {market}{}",
        tx.tx_id,
        said(newest)
    );
    let limit = |text: &Option<String>| text.as_ref().and_then(|text| text.parse::<u128>().ok());
    let is_reached = |limit: &u128| *limit <= offer.saturating_add(offer / 8);
    let (own, of_chain) = (limit(&tx.fee_limit), limit(&facts.fee_limit));
    let remedy = match (of_chain.filter(is_reached), own.filter(is_reached)) {
        (Some(limit), own) if own.is_none_or(|own| limit <= own) => Remedy::new(
            "speed-up",
            format!(
                "the chain's fee limit of {limit} wei is reached: wait for the market to fall, cancel it, or raise \
                 max_fee_gwei of the [[chain]] and speed it up"
            ),
        ),
        (_, Some(limit)) => Remedy::new(
            "speed-up",
            format!(
                "its fee limit of {limit} wei is reached: speed it up by hand, cancel it, or wait for the market to fall"
            ),
        ),
        _ => Remedy::new("bump", "a new attempt that offers more is made").automatic(),
    };
    Some(finding(Severity::Blocked, "underpriced", words, Some(remedy)))
}
