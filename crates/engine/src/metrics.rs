//! Names and labels of the metrics, in one place.
//!
//! Only what somebody has to act on names a signer: that it is paused or held up, and what its
//! account has. Everything else is summed up, or thousands of signers would drown a Prometheus.

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};
use std::time::Duration;
use stile_domain::{ChainId, Lane, U256, Verdict};

use crate::cluster::Source;

/// Every metric: name, kind and what it counts. The reference page is made from it.
pub const METRICS: &[(&str, Kind, &str)] = &[
    (LEASE_ACQUIRE, Kind::Counter, "Lanes asked for, by result: taken, kept, other, error"),
    (
        LEASE_RENEW,
        Kind::Counter,
        "Leases renewed in the background, by result: renewed, skipped, fenced, error",
    ),
    (
        LEASE_RENEW_LATE,
        Kind::Counter,
        "Leases renewed so late that this node had stopped relying on them: three quarters of a lease after the last time",
    ),
    (
        LEASE_TAKEOVER,
        Kind::Counter,
        "Lanes taken over from other holders, by cause: expired, restart",
    ),
    (
        LEASE_STATEMENTS,
        Kind::Counter,
        "Statements sent to the store for leases and membership, by kind: acquire, renew, take_over, heartbeat, look",
    ),
    (
        REALIGNED,
        Kind::Counter,
        "Lanes realigned with their chains because the database lost commits or was restored",
    ),
    (
        RESTORED_WAITING,
        Kind::Gauge,
        "Transactions that wait for a person's word because the database was restored, by chain and signer",
    ),
    (
        RESTORED_RECOVERED,
        Kind::Counter,
        "Transactions of a restored database of which the chain showed that they had been sent before",
    ),
    (
        FENCE_REJECT,
        Kind::Counter,
        "Writes refused because the lane has a newer token, by operation",
    ),
    (DUPLICATE_NODE, Kind::Counter, "Lanes lost to another process with this node's id"),
    (LANES_HELD, Kind::Gauge, "Lanes this node holds"),
    (
        NODES_LIVE,
        Kind::Gauge,
        "Nodes on the same database that were heard of lately, this one included",
    ),
    (
        MEMBERSHIP,
        Kind::Gauge,
        "Where nodes learn of each other: 0 registry, 1 what the registry said last, 2 database",
    ),
    (
        CALL_PLACES,
        Kind::Gauge,
        "Calls that this node may have under way at an endpoint of a chain with max_concurrency, by chain and endpoint",
    ),
    (
        USABLE,
        Kind::Gauge,
        "1 while an endpoint answers and is asked, 0 while it does not or is set aside, by chain and endpoint",
    ),
    (
        READ_ONLY,
        Kind::Gauge,
        "1 while an endpoint is known to take no transactions, by chain and endpoint",
    ),
    (
        LEFT_ALONE,
        Kind::Gauge,
        "Seconds for which an endpoint is still left alone because it said so (Retry-After), by chain and endpoint",
    ),
    (HANDED_OVER, Kind::Counter, "Lanes handed to the node that they had best be on"),
    (NEWS, Kind::Counter, "Lanes that nodes told each other of, by way: sent, heard"),
    (
        HOLDS,
        Kind::Gauge,
        "Holds on this node's lanes that need attention, by status: suspect, released",
    ),
    (HOLDS_EXPIRED, Kind::Counter, "Holds that ran out, by what became of them: suspect, released"),
    (HOLDS_SETTLED, Kind::Counter, "Holds that the chain showed to be used"),
    (
        HOLDS_ORPHANED,
        Kind::Counter,
        "Holds released because their caller was gone before the answer",
    ),
    (ALLOCATE, Kind::Counter, "Allocations, by result: fresh, reissued, repeated, refused"),
    (
        MARK,
        Kind::Counter,
        "Marks, by verdict (used, recyclable) and result (done, conflict, superseded, not_found, error)",
    ),
    (QUEUE_DEPTH, Kind::Gauge, "Calls waiting, by worker"),
    (QUEUE_WAIT, Kind::Histogram, "Seconds a call waited for its worker"),
    (QUEUE_REJECT, Kind::Counter, "Calls refused because a queue was full, by policy"),
    (COMMIT_SIZE, Kind::Histogram, "Nonces in one commit"),
    (COMMIT_SECONDS, Kind::Histogram, "Seconds one commit took, by operation"),
    (STORE_ERRORS, Kind::Counter, "Store calls that failed, by operation"),
    (CHAIN_READS, Kind::Counter, "Transaction counts asked of the chain, by result: ok, error"),
    (TX_ACCEPT, Kind::Counter, "Transactions handed over, by result: new, repeated, refused"),
    (
        TX_SUBMIT,
        Kind::Counter,
        "Answers of endpoints to signed transactions, by what they made of them (result): accepted, known, \
         nonce-too-low, nonce-too-high, underpriced, replacement-underpriced, insufficient-funds, rejected, \
         unrecognised, read-only, transient",
    ),
    (
        TX_RESUBMIT,
        Kind::Counter,
        "Stored bytes sent again, by cause: stale (not mined for long), retry (not taken the last time)",
    ),
    (
        TX_IN_FLIGHT,
        Kind::Gauge,
        "Transactions of this node's lanes that are bound and not in a block, by chain",
    ),
    (
        TX_FIRST_SENT,
        Kind::Histogram,
        "Seconds from handing over to the first chain node that has it",
    ),
    (TX_MINED, Kind::Histogram, "Seconds from handing over to a canonical block"),
    (TX_FINAL, Kind::Histogram, "Seconds from handing over to the finality asked for"),
    (
        RECEIPT_CHECK,
        Kind::Counter,
        "Receipts asked for by themselves, by result: found, not_found, unreadable, side_block, error",
    ),
    (
        RECEIPT_BACKLOG,
        Kind::Gauge,
        "Transactions whose receipt is due to be asked for by itself, by chain",
    ),
    (
        UNESTIMATED,
        Kind::Gauge,
        "Transactions set aside because their gas cannot be estimated for now, by chain",
    ),
    (NEW_FORK, Kind::Counter, "Lists of confirmations that a reorganisation replaced"),
    (REORG, Kind::Counter, "Reorganisations followed"),
    (REORG_DEPTH, Kind::Histogram, "Blocks that a reorganisation replaced"),
    (FOLLOW_ERRORS, Kind::Counter, "Passes over a chain that could not be finished"),
    (
        DISPUTED,
        Kind::Counter,
        "Times nothing was confirmed because endpoints are on different forks",
    ),
    (
        VOTES,
        Kind::Counter,
        "What endpoints said about blocks that were voted on, by chain, endpoint and vote: agree, disagree, silent",
    ),
    (
        CONTRADICTED,
        Kind::Counter,
        "Times an endpoint was set aside because it contradicts what the others agree on or itself, or is followed and does not give the blocks that it has by its own word, by chain and endpoint",
    ),
    (
        UNREADABLE,
        Kind::Counter,
        "Answers of an endpoint that cannot be read, by chain, endpoint and method: the next endpoint is asked",
    ),
    (
        WITHHELD,
        Kind::Gauge,
        "Seconds since nothing is concluded from a chain for want of agreement, by chain and why: contradicted, too-few-voters; 0 if it is",
    ),
    (
        FINALITY_CONTRADICTED,
        Kind::Counter,
        "Transactions that were final and are not on the chain any more: their lanes are paused",
    ),
    (HEAD, Kind::Gauge, "Height of the newest block followed, by chain"),
    (
        STANDSTILL,
        Kind::Gauge,
        "For how long a chain has made no block, by chain; 0 unless that is much longer than usual and something waits for one",
    ),
    (SIGN_ERRORS, Kind::Counter, "Signatures that a signer outside this process did not give"),
    (SIGNED_IN_VAIN, Kind::Counter, "Signatures thrown away unsent because the lane had moved on"),
    (
        CHAIN_CALLS,
        Kind::Counter,
        "JSON-RPC calls made, by method and result: ok, error, timeout; each call of a batch counts",
    ),
    (CHAIN_CALL_SECONDS, Kind::Histogram, "Seconds a JSON-RPC call took, by method"),
    (
        SWEPT,
        Kind::Counter,
        "Removed because it was over and kept long enough, by what: tx (with its attempts and history), hold",
    ),
    (SWEEP_SECONDS, Kind::Histogram, "Seconds one batch of removals took, by what: tx, hold"),
    (
        TX_BUMP,
        Kind::Counter,
        "New attempts in place of old ones, by cause: underpriced, not-mined, speed-up, cancel, give-up, too-dear, recovered",
    ),
    (FEE_LIMIT, Kind::Counter, "Attempts not made because they would offer more than is allowed"),
    (
        TX_SUPERSEDED,
        Kind::Counter,
        "Transactions that failed because another one is final at their nonce, by whose it is: cancel, give-up, outsider",
    ),
    (
        MISMATCH,
        Kind::Counter,
        "Times a lane was found out of step with its chain, by kind: outside_use, chain_reset, gap, suspect_hold, silent_hold",
    ),
    (GAPS_FILLED, Kind::Counter, "Empty transactions made for nonces that nobody would use"),
    (LANE_PAUSED, Kind::Gauge, "1 while a lane of this node is paused, by chain and signer"),
    (
        LANE_GAP,
        Kind::Gauge,
        "Seconds since a lane of this node waits for a nonce that Stile will not send or a caller does not, by chain and signer; 0 if it does not",
    ),
    (
        BALANCE,
        Kind::Gauge,
        "What an account of this node's lanes has, in ether, by chain and signer",
    ),
    (
        RUNWAY,
        Kind::Gauge,
        "For how many more transactions that is enough, at what the last ones cost, by chain and signer",
    ),
];

/// What kind of metric it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only rises.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
}

const LEASE_ACQUIRE: &str = "stile_lease_acquire_total";
const LEASE_RENEW: &str = "stile_lease_renew_total";
const LEASE_RENEW_LATE: &str = "stile_lease_renew_late_total";
const LEASE_TAKEOVER: &str = "stile_lease_takeover_total";
const LEASE_STATEMENTS: &str = "stile_lease_statements_total";
const FENCE_REJECT: &str = "stile_fence_reject_total";
const DUPLICATE_NODE: &str = "stile_duplicate_node_total";
const NODES_LIVE: &str = "stile_nodes_live";
const MEMBERSHIP: &str = "stile_membership_source";
const CALL_PLACES: &str = "stile_chain_call_places";
const USABLE: &str = "stile_chain_endpoint_usable";
const READ_ONLY: &str = "stile_chain_endpoint_read_only";
const LEFT_ALONE: &str = "stile_chain_endpoint_left_alone_seconds";
const HANDED_OVER: &str = "stile_lane_hand_over_total";
const NEWS: &str = "stile_lane_news_total";
const LANES_HELD: &str = "stile_lanes_held";
const HOLDS: &str = "stile_holds";
const HOLDS_EXPIRED: &str = "stile_holds_expired_total";
const HOLDS_SETTLED: &str = "stile_holds_settled_total";
const HOLDS_ORPHANED: &str = "stile_holds_orphaned_total";
const ALLOCATE: &str = "stile_allocate_total";
const MARK: &str = "stile_mark_total";
const QUEUE_DEPTH: &str = "stile_worker_queue_depth";
const QUEUE_WAIT: &str = "stile_worker_queue_wait_seconds";
const QUEUE_REJECT: &str = "stile_worker_queue_reject_total";
const COMMIT_SIZE: &str = "stile_commit_batch_size";
const COMMIT_SECONDS: &str = "stile_commit_seconds";
const STORE_ERRORS: &str = "stile_store_errors_total";
const CHAIN_READS: &str = "stile_chain_nonce_reads_total";
const TX_ACCEPT: &str = "stile_tx_accept_total";
const TX_SUBMIT: &str = "stile_tx_submit_total";
const TX_RESUBMIT: &str = "stile_tx_resubmit_total";
const TX_IN_FLIGHT: &str = "stile_tx_in_flight";
const TX_FIRST_SENT: &str = "stile_tx_first_sent_seconds";
const TX_MINED: &str = "stile_tx_mined_seconds";
const TX_FINAL: &str = "stile_tx_final_seconds";
const RECEIPT_CHECK: &str = "stile_receipt_check_total";
const RECEIPT_BACKLOG: &str = "stile_receipt_backlog";
const UNESTIMATED: &str = "stile_tx_unestimated";
const NEW_FORK: &str = "stile_confirmations_new_fork_total";
const REORG: &str = "stile_reorg_total";
const REORG_DEPTH: &str = "stile_reorg_depth_size";
const FOLLOW_ERRORS: &str = "stile_follow_errors_total";
const DISPUTED: &str = "stile_confirmations_disputed_total";
const VOTES: &str = "stile_endpoint_votes_total";
const CONTRADICTED: &str = "stile_endpoint_contradicted_total";
const UNREADABLE: &str = "stile_endpoint_unreadable_total";
const WITHHELD: &str = "stile_chain_withheld_seconds";
const FINALITY_CONTRADICTED: &str = "stile_finality_contradicted_total";
const HEAD: &str = "stile_chain_head";
const STANDSTILL: &str = "stile_chain_standstill_seconds";
const SIGN_ERRORS: &str = "stile_sign_errors_total";
const SIGNED_IN_VAIN: &str = "stile_signed_in_vain_total";
const CHAIN_CALLS: &str = "stile_chain_calls_total";
const CHAIN_CALL_SECONDS: &str = "stile_chain_call_seconds";
const SWEPT: &str = "stile_retention_removed_total";
const SWEEP_SECONDS: &str = "stile_retention_batch_seconds";
const TX_BUMP: &str = "stile_tx_bump_total";
const FEE_LIMIT: &str = "stile_fee_limit_reached_total";
const TX_SUPERSEDED: &str = "stile_tx_superseded_total";
const REALIGNED: &str = "stile_lanes_realigned_total";
const RESTORED_WAITING: &str = "stile_lane_restored_waiting";
const RESTORED_RECOVERED: &str = "stile_restored_recovered_total";
const MISMATCH: &str = "stile_reconcile_mismatch_total";
const GAPS_FILLED: &str = "stile_gaps_filled_total";
const LANE_PAUSED: &str = "stile_lane_paused";
const LANE_GAP: &str = "stile_lane_gap_seconds";
const BALANCE: &str = "stile_signer_balance_ether";
const RUNWAY: &str = "stile_signer_runway_transactions";

/// The histograms of how long transactions take: seconds to hours, not fractions of a second.
pub const LIFETIMES: [&str; 3] = [TX_FIRST_SENT, TX_MINED, TX_FINAL];

/// Tells the recorder what each metric means, and starts every counter at zero: it is there before
/// it first rises, and the first rise is seen as one.
pub fn describe() {
    stile_registry::metrics::describe();
    for (name, kind, text) in METRICS {
        match kind {
            Kind::Counter => describe_counter!(*name, *text),
            Kind::Gauge => describe_gauge!(*name, *text),
            Kind::Histogram if name.ends_with("_seconds") => {
                describe_histogram!(*name, Unit::Seconds, *text);
            }
            Kind::Histogram => describe_histogram!(*name, *text),
        }
    }
    for (name, label, values) in COUNTED_BY {
        for value in *values {
            counter!(*name, *label => *value).absolute(0);
        }
    }
    for verdict in ["used", "recyclable"] {
        for result in ["done", "conflict", "superseded", "not_found", "error"] {
            counter!(MARK, "verdict" => verdict, "result" => result).absolute(0);
        }
    }
    for method in stile_chain::CALL_METHODS {
        for result in ["ok", "error", "timeout"] {
            counter!(CHAIN_CALLS, "method" => *method, "result" => result).absolute(0);
        }
    }
    for name in [
        DUPLICATE_NODE,
        HOLDS_SETTLED,
        HOLDS_ORPHANED,
        NEW_FORK,
        REORG,
        FOLLOW_ERRORS,
        DISPUTED,
        FINALITY_CONTRADICTED,
        LEASE_RENEW_LATE,
        SIGN_ERRORS,
        SIGNED_IN_VAIN,
        FEE_LIMIT,
        GAPS_FILLED,
        HANDED_OVER,
        REALIGNED,
        RESTORED_RECOVERED,
    ] {
        counter!(name).absolute(0);
    }
}

/// The counters with one label, and the values it takes.
const COUNTED_BY: &[(&str, &str, &[&str])] = &[
    (LEASE_ACQUIRE, "result", &["taken", "kept", "other", "error"]),
    (LEASE_RENEW, "result", &["renewed", "skipped", "fenced", "error"]),
    (LEASE_TAKEOVER, "cause", &["expired", "restart"]),
    (LEASE_STATEMENTS, "kind", &["acquire", "renew", "take_over", "heartbeat", "look"]),
    (NEWS, "way", &["sent", "heard"]),
    (
        FENCE_REJECT,
        "op",
        &[
            "allocate", "bind", "expire", "follow", "own_up", "realign", "record", "recover",
            "release", "renew", "send", "settle", "start",
        ],
    ),
    (HOLDS_EXPIRED, "became", &["suspect", "released"]),
    (ALLOCATE, "result", &["fresh", "reissued", "repeated", "refused"]),
    (QUEUE_REJECT, "policy", &["fail-fast", "caller-waits"]),
    (
        STORE_ERRORS,
        "op",
        &[
            "accept",
            "acquire",
            "allocate",
            "allocated_under",
            "bind",
            "done_between",
            "expire",
            "fill",
            "hand_over",
            "heartbeat",
            "mark",
            "in_flight_page",
            "outside_use",
            "pause",
            "realign",
            "reconcile",
            "record",
            "release",
            "renew",
            "restored",
            "retention",
            "save_headers",
            "send",
            "settle",
            "start",
            "survey",
            "take_expired",
            "tell_lane",
            "tell_nodes",
            "txs",
            "txs_by_request",
            "waiting",
            "wishes",
        ],
    ),
    (
        TX_BUMP,
        "cause",
        &["underpriced", "not-mined", "speed-up", "cancel", "give-up", "too-dear", "recovered"],
    ),
    (TX_SUPERSEDED, "by", &["cancel", "give-up", "outsider"]),
    (MISMATCH, "kind", &["outside_use", "chain_reset", "gap", "suspect_hold", "silent_hold"]),
    (CHAIN_READS, "result", &["ok", "error"]),
    (TX_ACCEPT, "result", &["new", "repeated", "refused"]),
    (
        TX_SUBMIT,
        "result",
        &[
            "accepted",
            "known",
            "nonce-too-low",
            "nonce-too-high",
            "underpriced",
            "replacement-underpriced",
            "insufficient-funds",
            "rejected",
            "transient",
        ],
    ),
    (TX_RESUBMIT, "cause", &["stale", "retry"]),
    (RECEIPT_CHECK, "result", &["found", "not_found", "side_block", "error"]),
    (SWEPT, "what", &["tx", "hold"]),
];

pub(crate) fn lease_acquired(result: &'static str) {
    counter!(LEASE_ACQUIRE, "result" => result).increment(1);
}

pub(crate) fn lease_renewed(result: &'static str, count: usize) {
    counter!(LEASE_RENEW, "result" => result).increment(count as u64);
}

pub(crate) fn renewed_late(count: usize) {
    counter!(LEASE_RENEW_LATE).increment(count as u64);
}

pub(crate) fn taken_over(cause: &'static str, count: usize) {
    counter!(LEASE_TAKEOVER, "cause" => cause).increment(count as u64);
}

pub(crate) fn lease_statements(kind: &'static str, count: usize) {
    counter!(LEASE_STATEMENTS, "kind" => kind).increment(count as u64);
}

pub(crate) fn fence_rejected(op: &'static str) {
    counter!(FENCE_REJECT, "op" => op).increment(1);
}

pub(crate) fn duplicate_node() {
    counter!(DUPLICATE_NODE).increment(1);
}

pub(crate) fn nodes_live(count: usize) {
    gauge!(NODES_LIVE).set(count as f64);
}

pub(crate) fn handed_over(count: usize) {
    counter!(HANDED_OVER).increment(count as u64);
}

pub(crate) fn told(way: &'static str, count: usize) {
    counter!(NEWS, "way" => way).increment(count as u64);
}

pub(crate) fn lanes_held(count: usize) {
    gauge!(LANES_HELD).set(count as f64);
}

pub(crate) fn holds_open(suspect: usize, released: usize) {
    gauge!(HOLDS, "status" => "suspect").set(suspect as f64);
    gauge!(HOLDS, "status" => "released").set(released as f64);
}

pub(crate) fn holds_expired(became: &'static str, count: usize) {
    counter!(HOLDS_EXPIRED, "became" => became).increment(count as u64);
}

pub(crate) fn holds_settled(count: usize) {
    counter!(HOLDS_SETTLED).increment(count as u64);
}

pub(crate) fn holds_orphaned(count: usize) {
    counter!(HOLDS_ORPHANED).increment(count as u64);
}

pub(crate) fn allocated(result: &'static str, count: usize) {
    counter!(ALLOCATE, "result" => result).increment(count as u64);
}

pub(crate) fn marked(verdict: &'static str, result: &'static str) {
    counter!(MARK, "verdict" => verdict, "result" => result).increment(1);
}

pub(crate) fn queue_depth(worker: usize, depth: usize) {
    gauge!(QUEUE_DEPTH, "worker" => worker.to_string()).set(depth as f64);
}

pub(crate) fn queue_waited(waits: impl Iterator<Item = Duration>) {
    let histogram = histogram!(QUEUE_WAIT);
    waits.for_each(|wait| histogram.record(wait));
}

pub(crate) fn queue_rejected(policy: &'static str) {
    counter!(QUEUE_REJECT, "policy" => policy).increment(1);
}

pub(crate) fn committed(op: &'static str, size: usize, took: Duration) {
    histogram!(COMMIT_SIZE, "op" => op).record(size as f64);
    histogram!(COMMIT_SECONDS, "op" => op).record(took);
}

pub(crate) fn store_failed(op: &'static str) {
    counter!(STORE_ERRORS, "op" => op).increment(1);
}

pub(crate) fn chain_read(result: &'static str) {
    counter!(CHAIN_READS, "result" => result).increment(1);
}

pub(crate) fn accepted(result: &'static str) {
    counter!(TX_ACCEPT, "result" => result).increment(1);
}

pub(crate) fn submitted(result: &'static str) {
    counter!(TX_SUBMIT, "result" => result).increment(1);
}

pub(crate) fn resubmitted(stale: bool) {
    counter!(TX_RESUBMIT, "cause" => if stale { "stale" } else { "retry" }).increment(1);
}

pub(crate) fn in_flight(chain: ChainId, count: usize) {
    gauge!(TX_IN_FLIGHT, "chain" => chain.to_string()).set(count as f64);
}

pub(crate) fn first_sent(after: Duration) {
    histogram!(TX_FIRST_SENT).record(after);
}

pub(crate) fn mined(after: Duration) {
    histogram!(TX_MINED).record(after);
}

pub(crate) fn confirmed(after: Duration) {
    histogram!(TX_FINAL).record(after);
}

pub(crate) fn receipt_checked(result: &'static str, count: usize) {
    counter!(RECEIPT_CHECK, "result" => result).increment(count as u64);
}

pub(crate) fn receipt_backlog(chain: ChainId, count: usize) {
    gauge!(RECEIPT_BACKLOG, "chain" => chain.to_string()).set(count as f64);
}

pub(crate) fn unestimated(chain: ChainId, count: usize) {
    gauge!(UNESTIMATED, "chain" => chain.to_string()).set(count as f64);
}

pub(crate) fn new_fork() {
    counter!(NEW_FORK).increment(1);
}

pub(crate) fn reorganised(depth: usize) {
    counter!(REORG).increment(1);
    histogram!(REORG_DEPTH).record(depth as f64);
}

pub(crate) fn follow_failed() {
    counter!(FOLLOW_ERRORS).increment(1);
}

pub(crate) fn disputed() {
    counter!(DISPUTED).increment(1);
}

pub(crate) fn vote(chain: ChainId, endpoint: &str, vote: &'static str) {
    let (chain, endpoint) = (chain.to_string(), endpoint.to_owned());
    counter!(VOTES, "chain" => chain, "endpoint" => endpoint, "vote" => vote).increment(1);
}

/// An endpoint that nobody has asked for a vote yet: from nothing to one is a rise, too.
pub(crate) fn endpoint(chain: ChainId, endpoint: &str) {
    let (chain, endpoint) = (chain.to_string(), endpoint.to_owned());
    for vote in ["agree", "disagree", "silent"] {
        let (chain, endpoint) = (chain.clone(), endpoint.clone());
        counter!(VOTES, "chain" => chain, "endpoint" => endpoint, "vote" => vote).increment(0);
    }
    for method in stile_chain::CALL_METHODS {
        let (chain, endpoint) = (chain.clone(), endpoint.clone());
        counter!(UNREADABLE, "chain" => chain, "endpoint" => endpoint, "method" => *method)
            .increment(0);
    }
    counter!(CONTRADICTED, "chain" => chain, "endpoint" => endpoint).increment(0);
}

/// How often an endpoint has contradicted the others, as its pool counts it.
pub(crate) fn contradicted(chain: ChainId, endpoint: &str, times: u64) {
    let (chain, endpoint) = (chain.to_string(), endpoint.to_owned());
    counter!(CONTRADICTED, "chain" => chain, "endpoint" => endpoint).absolute(times);
}

/// How often an endpoint has answered what cannot be read, as its pool counts it.
pub(crate) fn unreadable(chain: ChainId, endpoint: &str, totals: &[(&'static str, u64)]) {
    for (method, times) in totals {
        let (chain, endpoint) = (chain.to_string(), endpoint.to_owned());
        counter!(UNREADABLE, "chain" => chain, "endpoint" => endpoint, "method" => *method)
            .absolute(*times);
    }
}

/// What is not concluded, and for how long.
pub(crate) fn withheld(chain: ChainId, open: Option<(Verdict, Duration)>) {
    for verdict in [Verdict::Contradicted, Verdict::TooFewVoters] {
        let since = open.filter(|(open, _)| *open == verdict).map(|(_, since)| since);
        let seconds = since.unwrap_or_default().as_secs_f64();
        gauge!(WITHHELD, "chain" => chain.to_string(), "why" => verdict.name()).set(seconds);
    }
}

pub(crate) fn finality_contradicted() {
    counter!(FINALITY_CONTRADICTED).increment(1);
}

pub(crate) fn head(chain: ChainId, height: u64) {
    gauge!(HEAD, "chain" => chain.to_string()).set(height as f64);
}

/// For how long a chain has made no block, while something waits for one.
pub(crate) fn standstill(chain: ChainId, silent: Duration) {
    gauge!(STANDSTILL, "chain" => chain.to_string()).set(silent.as_secs_f64());
}

pub(crate) fn membership_source(source: Source) {
    gauge!(MEMBERSHIP).set(match source {
        Source::Registry => 0.0,
        Source::LastKnown => 1.0,
        Source::Store => 2.0,
    });
}

pub(crate) fn call_places(chain: ChainId, endpoint: &str, places: usize) {
    let (chain, endpoint) = (chain.to_string(), endpoint.to_owned());
    gauge!(CALL_PLACES, "chain" => chain, "endpoint" => endpoint).set(places as f64);
}

/// Whether an endpoint is asked.
pub(crate) fn usable(chain: ChainId, endpoint: &str, is_usable: bool) {
    let (chain, endpoint) = (chain.to_string(), endpoint.to_owned());
    let value = if is_usable { 1.0 } else { 0.0 };
    gauge!(USABLE, "chain" => chain, "endpoint" => endpoint).set(value);
}

pub(crate) fn read_only(chain: ChainId, endpoint: &str, is_read_only: bool) {
    let (chain, endpoint) = (chain.to_string(), endpoint.to_owned());
    let value = if is_read_only { 1.0 } else { 0.0 };
    gauge!(READ_ONLY, "chain" => chain, "endpoint" => endpoint).set(value);
}

/// For how long an endpoint is left alone.
pub(crate) fn left_alone(chain: ChainId, endpoint: &str, left: Option<Duration>) {
    let (chain, endpoint) = (chain.to_string(), endpoint.to_owned());
    let seconds = left.unwrap_or_default().as_secs_f64();
    gauge!(LEFT_ALONE, "chain" => chain, "endpoint" => endpoint).set(seconds);
}

pub(crate) fn sign_failed() {
    counter!(SIGN_ERRORS).increment(1);
}

pub(crate) fn signed_in_vain(count: usize) {
    counter!(SIGNED_IN_VAIN).increment(count as u64);
}

pub(crate) fn swept(what: &'static str, count: u64, took: Duration) {
    counter!(SWEPT, "what" => what).increment(count);
    histogram!(SWEEP_SECONDS, "what" => what).record(took);
}

pub(crate) fn replaced(cause: &'static str) {
    counter!(TX_BUMP, "cause" => cause).increment(1);
}

pub(crate) fn fee_limit_reached() {
    counter!(FEE_LIMIT).increment(1);
}

pub(crate) fn superseded(by: &'static str) {
    counter!(TX_SUPERSEDED, "by" => by).increment(1);
}

pub(crate) fn mismatch(kind: &'static str) {
    counter!(MISMATCH, "kind" => kind).increment(1);
}

pub(crate) fn realigned() {
    counter!(REALIGNED).increment(1);
}

pub(crate) fn restored_recovered() {
    counter!(RESTORED_RECOVERED).increment(1);
}

pub(crate) fn restored_waiting(lane: Lane, count: usize) {
    of_lane(RESTORED_WAITING, lane, count as f64);
}

pub(crate) fn gap_filled() {
    counter!(GAPS_FILLED).increment(1);
}

pub(crate) fn lane_paused(lane: Lane, paused: bool) {
    of_lane(LANE_PAUSED, lane, if paused { 1.0 } else { 0.0 });
}

pub(crate) fn gap_age(lane: Lane, age: Duration) {
    of_lane(LANE_GAP, lane, age.as_secs_f64());
}

pub(crate) fn balance(lane: Lane, wei: U256) {
    of_lane(BALANCE, lane, f64::from(wei) / 1e18);
}

/// For how many transactions a balance is enough; nothing is known of an account that has made none.
pub(crate) fn runway(lane: Lane, balance: U256, usual_cost: Option<f64>) {
    if let Some(cost) = usual_cost.filter(|cost| *cost > 0.0) {
        of_lane(RUNWAY, lane, (f64::from(balance) / cost).floor());
    }
}

/// Somebody else tells of the lane now, or nobody.
pub(crate) fn lane_gone(lane: Lane) {
    of_lane(LANE_PAUSED, lane, 0.0);
    of_lane(LANE_GAP, lane, 0.0);
    of_lane(RESTORED_WAITING, lane, 0.0);
    of_lane(BALANCE, lane, f64::NAN);
    of_lane(RUNWAY, lane, f64::NAN);
}

fn of_lane(name: &'static str, lane: Lane, value: f64) {
    let (chain, signer) = (lane.chain.to_string(), lane.signer.to_string());
    gauge!(name, "chain" => chain, "signer" => signer).set(value);
}

/// The reference page of metrics.
pub fn reference_markdown() -> String {
    let mut page = String::from(
        "# Metrics\n\nServed at `/metrics` in Prometheus' text format. Only what somebody has to act on\n\
         carries a signer's address: `stile_lane_paused`, `stile_lane_gap_seconds`,\n\
         `stile_lane_restored_waiting`, `stile_signer_balance_ether` and\n\
         `stile_signer_runway_transactions`, of the lanes that the node holds.\n\
         Besides these, `stile_http_requests_total` (by method, route and status) and\n\
         `stile_http_request_seconds` (by route) count every request,\n\
         `stile_forward_total` (by result: answered, moved, failed, refused, absent, silent, unsafe)\n\
         counts calls passed on to other nodes, and\n\
         `stile_api_key_reads_total` (by result) counts how often the API keys were read from the database.\n\
         `stile_api_key_refused_total` (by reason: missing, wrong, too-many) counts calls refused for want\n\
         of a good key. `stile_http_connections` and `stile_http_streams` are the connections, and the\n\
         event streams and WebSockets, that callers have open; `stile_http_connections_refused_total` (by\n\
         limit: all, address) counts connections there was no room for, and `stile_http_timeouts_total`\n\
         (by limit: headers, body, idle, write, tls) what was not waited for any longer.\n\
         `stile_stream_reads_total` (by reader: all, one) counts how often the stream of events was read,\n\
         for all its listeners or for one that was behind.\n\n\
         | metric | kind | what it tells |\n|---|---|---|\n",
    );
    let row = |name: &str, kind: String, text: &str| {
        format!("| `{name}` | {} | {text} |\n", kind.to_lowercase())
    };
    for (name, kind, text) in METRICS {
        page.push_str(&row(name, format!("{kind:?}"), text));
    }
    page.push_str(
        "\n## The node registry\n\nOf each node's own part of it; see [registry](registry.md).\n\n\
         | metric | kind | what it tells |\n|---|---|---|\n",
    );
    for (name, kind, text) in stile_registry::metrics::METRICS {
        page.push_str(&row(name, format!("{kind:?}"), text));
    }
    page
}
