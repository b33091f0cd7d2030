//! What nodes are told: the same lanes and leases, and each its own way of working.

use std::fmt::Write;

use testkit::RpcProxy;

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

/// A node's file.
pub(super) fn text(
    number: usize,
    port: u16,
    store_url: &str,
    endpoints: &[RpcProxy],
    options: &Options,
    lanes: usize,
) -> String {
    // Ways of working side by side, so that each lane meets all of them.
    let role = Role::of(options, number);
    let (mode, not_holder) = (role.mode, role.not_holder);
    let lease_ms = options.lease_ms;
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
tx.resubmit.interval = "5s"
tx.resubmit.bump_after = "10s"
confirmations.required = {required}
confirmations.reorg_window = 64
confirmations.stale_receipt_timeout = "5s"
"#,
        renew_ms = lease_ms / 4,
        hold_ms = super::HOLD_MS,
        required = super::CONFIRMATIONS,
    );
    let urls: Vec<String> = endpoints.iter().map(RpcProxy::url).collect();
    writeln!(text, "[[chain]]\nid = 31337\nendpoints = {urls:?}").expect("write to a string");
    for lane in 0..lanes {
        writeln!(text, "[[signer]]\nkey = \"env:KEY_{lane}\"").expect("write to a string");
    }
    text
}
