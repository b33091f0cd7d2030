//! What endpoints answer that cannot be read.

use stile_chain::{EndpointReport, UnreadableReport};

use super::{Finding, Remedy, Severity, finding};
use crate::care::facts::LaneFacts;

/// What is asked for the whole time while something waits for it: an answer that could not be read for
/// longer than this was followed by one that could.
const STILL: u64 = 90;

/// Without these nothing goes on. For the others there is another way.
const RECEIPTS: &[&str] = &["eth_getTransactionReceipt"];
const BLOCKS: &[&str] =
    &["eth_getBlockByNumber", "eth_getBlockByHash", "eth_blockNumber", "eth_chainId"];
const COUNTS: &[&str] = &["eth_getTransactionCount"];

/// One finding for all of it: an endpoint that leaves out one field seldom leaves out only one.
pub(super) fn unreadable(facts: &LaneFacts) -> Option<Finding> {
    let told = facts.endpoints.iter().flat_map(|endpoint| {
        endpoint.unreadable.iter().map(|unread| words(&endpoint.endpoint, unread))
    });
    let told: Vec<String> = told.collect();
    if told.is_empty() {
        return None;
    }
    let waits = facts.in_flight + facts.queued > 0;
    let stops = (facts.receipt_missing && nobody_else(facts, RECEIPTS))
        || (waits && (nobody_else(facts, BLOCKS) || nobody_else(facts, COUNTS)));
    let (severity, then) = match stops {
        true => {
            (Severity::Blocked, "and no other endpoint answers it, and transactions wait for it")
        }
        false => (Severity::Warning, "and it was done without, or another endpoint was asked"),
    };
    let words = format!(
        "an answer of chain {} cannot be read, {then}: {}",
        facts.chain_id,
        told.join("; ")
    );
    let remedy = Remedy::new(
        "replace-endpoint",
        "mend or update the node, or what stands before it, or add another endpoint to [[chain]] endpoints; \
         stile goes on by itself once one of them answers with the field",
    );
    Some(finding(severity, "unreadable-answer", words, Some(remedy)))
}

fn words(endpoint: &str, unread: &UnreadableReport) -> String {
    let UnreadableReport { method, field, words, count, seconds_ago, .. } = unread;
    format!(
        "{endpoint} answered {words} to {method}, field {field}, {count} times, last {seconds_ago} s ago"
    )
}

/// Whether every endpoint answers one of these so that it cannot be read.
fn nobody_else(facts: &LaneFacts, methods: &[&str]) -> bool {
    let is_still = |it: &UnreadableReport| methods.contains(&it.method) && it.seconds_ago < STILL;
    let fails = |endpoint: &EndpointReport| endpoint.unreadable.iter().any(is_still);
    !facts.endpoints.is_empty() && facts.endpoints.iter().all(fails)
}
