//! What nodes are told: the same lanes and leases, and each its own way of working.

use std::fmt::Write;
use std::net::SocketAddr;

use super::Options;
use crate::random::Random;

/// Places whose clocks on the wall differ by hours, and from whole hours. No node's session may
/// make anything of them.
const ZONES: [&str; 4] = ["UTC", "Asia/Kathmandu", "America/St_Johns", "Pacific/Kiritimati"];

/// The place of a node's clock.
pub(super) fn zone(number: usize) -> &'static str {
    ZONES[number % ZONES.len()]
}

/// The part of chance that says what nodes do with calls for others.
const WAYS: u64 = 1_000_001;

/// How a node works: by the seed, and for as long as the run.
struct Role {
    mode: &'static str,
    not_holder: &'static str,
}

impl Role {
    fn of(options: &Options, number: usize) -> Self {
        let turn = (options.seed % 3 + number as u64) % 3;
        // Lanes are handed over between those that are not basic.
        let mode = if turn == 2 { "basic" } else { "worker-queue" };
        let ways = ["accept", "forward", "reject"];
        let way = Random::part(options.seed, WAYS).place(3) + number;
        Self { mode, not_holder: ways[way % 3] }
    }
}

/// Where a node finds its servers: its own proxies.
#[derive(Debug)]
pub(super) struct Ways {
    pub(super) store_url: String,
    pub(super) redis: Option<SocketAddr>,
    pub(super) endpoints: Vec<String>,
}

/// What is read of other nodes is soon looked up again, and who is silent is soon gone, so that
/// whatever happens to Redis matters while it lasts. The chain is asked through slots of the registry.
const REGISTRY: &str = r#"[registry]
l1_ttl = "500ms"
ttl_jitter = "100ms"
redis_timeout = "250ms"
node_ttl = "5s"
"#;

/// Calls under way at an endpoint: room enough, as long as slots are given back.
const MAX_CONCURRENCY: u32 = 8;

/// A node's file.
pub(super) fn text(
    number: usize,
    port: u16,
    ways: &Ways,
    options: &Options,
    lanes: usize,
) -> String {
    // Ways of working side by side, so that each lane meets all of them.
    let role = Role::of(options, number);
    let (mode, not_holder) = (role.mode, role.not_holder);
    let (lease_ms, store_url) = (options.lease_ms, &ways.store_url);
    let mut text = format!(
        r#"node.id = "n{number}"
server.listen = "127.0.0.1:{port}"
server.shutdown_grace = "5s"
cluster.advertise_url = "http://127.0.0.1:{port}"
cluster.not_holder = "{not_holder}"
cluster.secret = "env:CLUSTER_SECRET"
store.url = "{store_url}"
store.pool_size = 8
nonce.mode = "{mode}"
nonce.lease.duration = "{lease_ms}ms"
nonce.lease.renew_interval = "{renew_ms}ms"
nonce.hold_timeout = "{hold_ms}ms"
nonce.state_timeout = "2s"
lane.outside_use = "follow"
lane.underfunded = "wait"
tx.resubmit.interval = "5s"
tx.resubmit.bump_after = "10s"
tx.estimate.tries = 3
tx.estimate.interval = "1s"
tx.estimate.max_interval = "2s"
confirmations.required = {required}
confirmations.reorg_window = 64
confirmations.stale_receipt_timeout = "5s"
"#,
        renew_ms = lease_ms / 4,
        hold_ms = super::HOLD_MS,
        required = super::CONFIRMATIONS,
    );
    // Where a standby is promoted that may lack something, nobody is told otherwise: `"ask"` is what
    // nodes do by themselves.
    if !options.restores {
        writeln!(text, "store.failover = \"synchronous\"").expect("write to a string");
    }
    if let Some(redis) = ways.redis {
        writeln!(text, "redis.url = \"redis://{redis}\"\n{REGISTRY}").expect("write to a string");
    }
    let urls = &ways.endpoints;
    writeln!(text, "[[chain]]\nid = 31337\nendpoints = {urls:?}").expect("write to a string");
    // Some transactions are to be refused by every endpoint for want of gas, and not at the door.
    writeln!(text, "intrinsic_gas = \"unchecked\"").expect("write to a string");
    if ways.redis.is_some() {
        writeln!(text, "max_concurrency = {MAX_CONCURRENCY}").expect("write to a string");
    }
    for lane in 0..lanes {
        writeln!(text, "[[signer]]\nkey = \"env:KEY_{lane}\"").expect("write to a string");
    }
    text
}
