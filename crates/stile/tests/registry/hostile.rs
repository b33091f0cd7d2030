//! A Redis that somebody else writes to.

use chaos::hostile::{Attack, Attacker, Trap};
use std::net::SocketAddr;
use testkit::eventually_within;

use crate::common::{NodeOptions, StileProcess, signers};
use crate::holds::Holds;
use crate::ids;
use crate::membership::{LANES, SIGNERS, Setup, settled, until_source};
use crate::support::Load;

const SECRET: &str = "0d6c3ab1f9e24578bb1c90e7d35af2648c7b1e90fa26d4538e0b7c1fd29a6e43";

/// As many as there is no use for.
const FLOOD: u32 = 10_000;

/// A node that would pass everything on.
fn node(setup: &Setup, name: &str) -> NodeOptions {
    setup
        .node(name)
        .set("cluster.not_holder", "forward")
        .set("cluster.secret", "env:CLUSTER_SECRET")
        .environment("CLUSTER_SECRET", SECRET)
}

/// Whatever is written to Redis while nodes work: nodes that there are not, other places for those
/// that there are, that nobody lives, ten thousand nodes at once, nothing at all.
///
/// Fails if anything arrives where Redis says that nodes are, if a lane is given to a node that
/// somebody made up, if a made-up node is counted, shown or named as one to ask, or if a transaction
/// or a nonce is lost or doubled.
#[tokio::test]
async fn hole_40_whoever_writes_to_redis_gets_no_lane_and_no_call() {
    let setup = Setup::new().await;
    let trap = Trap::start().await;
    let attacker = Attacker::new(SocketAddr::from(([127, 0, 0, 1], setup.redis.port())), &trap);
    let (a, b, c) = (node(&setup, "a"), node(&setup, "b"), node(&setup, "c"));
    let (a, b, c) = tokio::join!(a.start(), b.start(), c.start());
    let all = [&a, &b, &c];
    until_source(&all, crate::membership::REGISTRY).await;
    let lanes = signers(LANES);
    let (load, holds) = (Load::of(&setup.anvil, &all, SIGNERS).await, Holds::of(&lanes, &all));
    let disturbed = async {
        tokio::join!(load.more(40), holds.more(60));
        settled(&a, &lanes, 3).await;
        for attack in [
            Attack::MakeUp(1),
            Attack::MakeUp(20),
            Attack::Divert,
            Attack::Silence,
            Attack::MakeUp(FLOOD),
            Attack::Divert,
            Attack::Empty,
        ] {
            // Again and again, since nodes tell Redis of themselves all the time.
            let looks = looks(&all).await;
            eventually_within(2 * testkit::DEADLINE, "every node to look four times", async || {
                let hit = attacker.inflict(attack).await;
                hit.unwrap_or_else(|why| panic!("{attack:?}: {why}"));
                tokio::join!(load.more(4), holds.more(6));
                for (node, before) in all.iter().zip(&looks) {
                    if node.metric(LOOKS).await < before + 4.0 {
                        return None;
                    }
                }
                Some(())
            })
            .await;
            for node in all {
                check_node(node, &lanes, &trap, attack).await;
            }
            tokio::join!(load.more(20), holds.more(30));
        }
    };
    load.during(holds.during(disturbed)).await;
    println!("{} transactions, {} nonces", load.taken(), holds.taken());
    println!("refused: {:?} {:?}", load.refused(), holds.refused());
    assert_eq!(trap.caught(), [""; 0], "something arrived where Redis says that nodes are");
    let sql = "SELECT count(*) FROM lane WHERE owner_node NOT IN ('a', 'b', 'c')";
    assert_eq!(setup.database.rows(sql).await, [["0"]], "lanes of nodes that there are not");
    let passed_on: f64 = {
        let mut sum = 0.0;
        for node in all {
            sum += node.metric("stile_forward_total{result=\"answered\"}").await;
        }
        sum
    };
    assert!(passed_on > 0.0, "calls were passed on, to nodes that there are");
    holds.check();
    load.check(&setup.anvil, &a).await;
}

/// Heartbeats: a node looks for the others with each.
const LOOKS: &str = "stile_lease_statements_total{kind=\"heartbeat\"}";

async fn looks(nodes: &[&StileProcess]) -> Vec<f64> {
    let mut looks = Vec::new();
    for node in nodes {
        looks.push(node.metric(LOOKS).await);
    }
    looks
}

/// What one node says of the others.
async fn check_node(node: &StileProcess, lanes: &[String], trap: &Trap, attack: Attack) {
    let said = format!("{} after {attack:?}", node.id());
    assert_eq!(node.metric("stile_nodes_live").await, 3.0, "{said}");
    let members = node.get("/api/v1/pools/stile/members").await.ok();
    assert_eq!(ids(&members), ["a", "b", "c"], "{said}");
    assert!(!members.to_string().contains(&trap.url()), "{said}");
    for lane in lanes {
        let route = node.get(&format!("/api/v1/route?signer={lane}")).await.ok();
        assert!(!route.to_string().contains(&trap.url()), "{said}: {route}");
        for place in ["preferred", "holder"] {
            let id = route[place]["nodeId"].as_str();
            assert!(id.is_none_or(|id| ["a", "b", "c"].contains(&id)), "{said}: {route}");
        }
    }
}
