//! More lanes than anybody looks at one by one.

use std::sync::Arc;

use stile_domain::{Address, ChainId, Lane};
use stile_engine::{NonceError, Settings};
use testkit::eventually;

use crate::common::{Bench, Chain, lease, on};

on! { queue: postgres(crate::common::QUEUE) => a_dead_nodes_ten_thousand_lanes_are_taken_and_worked }
on! { basic: postgres(Mode::Basic) => a_dead_nodes_ten_thousand_lanes_are_taken_and_worked }

const LANES: u32 = 10_000;

/// The lane of each number, as below.
fn numbered(number: u32) -> Lane {
    let mut address = [0; 20];
    address[16..].copy_from_slice(&number.to_be_bytes());
    Lane::new(ChainId::new(31337).expect("in range"), Address::from(address))
}

/// As many lanes, each with a hold in somebody's hands, of a node that has died and whose leases
/// run out in three seconds.
fn died() -> String {
    format!(
        "INSERT INTO lane (chain_id, signer, owner_node, owner_incarnation, fencing_token,
                           acquired_at, expires_at, updated_at, next_nonce)
         SELECT 31337, decode(lpad(to_hex(n), 40, '0'), 'hex'), 'dead',
                '00000000-0000-4000-8000-000000000001', 1, now(), now() + interval '3 s', now(), 1
         FROM generate_series(1, {LANES}) n;
         INSERT INTO nonce (chain_id, signer, nonce, owner_kind, owner_id, status, locked_until,
                            fencing_token, created_at, updated_at)
         SELECT chain_id, signer, 0, 'hold', gen_random_uuid(), 'HELD', now() + interval '1 h', 1,
                now(), now()
         FROM lane"
    )
}

/// Fails if lanes are left behind, or are held and not worked. How long it takes is measured by
/// `stile bench failover`.
async fn a_dead_nodes_ten_thousand_lanes_are_taken_and_worked(bench: Bench) {
    let settings =
        |name| Settings { moves_lanes: true, lease: lease(20_000), ..bench.settings(name) };
    let chain = || Arc::new(Chain::default());
    let a = bench.start_with(settings("a"), chain()).await;
    let b = bench.start_with(settings("b"), chain()).await;
    bench.database.execute(&died()).await;
    eventually("all lanes to be taken", async || {
        let left = "SELECT count(*)::text FROM lane WHERE owner_node = 'dead'";
        (bench.database.value(left).await == "0").then_some(())
    })
    .await;
    let taken =
        "SELECT count(*) FILTER (WHERE owner_node IN ('a', 'b') AND fencing_token = 2)::text
                 FROM lane";
    assert_eq!(bench.database.value(taken).await, LANES.to_string());
    for number in (1..=LANES).step_by(500) {
        let lane = numbered(number);
        let hold = match a.nonces().allocate(lane).await {
            Err(NonceError::NotHolder { .. }) => b.nonces().allocate(lane).await,
            answer => answer,
        };
        assert_eq!(hold.expect("a nonce of whoever holds the lane").nonce, 1, "{lane}");
    }
}
