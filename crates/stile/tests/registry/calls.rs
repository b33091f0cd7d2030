//! Calls to chain endpoints, shared out between nodes.

use std::time::Duration;

use serde_json::json;
use testkit::{Anvil, AnvilOptions, Redis, RpcProxy, eventually, eventually_within};

use crate::common::{Database, NodeOptions, StileProcess};
use crate::{Solo, ids, kill};

/// What each call takes at least.
const TAKES: Duration = Duration::from_millis(400);

const METHOD: &str = "eth_estimateGas";

/// The most calls that were under way at one time, at least: so many came while the first of them
/// cannot have been answered.
fn at_once(proxy: &RpcProxy) -> usize {
    let calls = proxy.calls();
    let came: Vec<_> = calls.iter().filter(|call| call.method == METHOD).map(|it| it.at).collect();
    let during = |from: std::time::Instant| {
        came.iter().filter(|at| **at >= from && at.duration_since(from) < TAKES).count()
    };
    came.iter().map(|at| during(*at)).max().unwrap_or(0)
}

/// Hands over so many transactions at once, each of which asks the chain for its gas.
async fn ask(node: &StileProcess, signer: &str, count: usize) {
    let calls = (0..count).map(|_| {
        let body = json!({
            "signer": signer,
            "payload": { "to": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8", "value": "1" },
        });
        node.post("/api/v1/tx", body)
    });
    for answer in futures::future::join_all(calls).await {
        assert_eq!(answer.status, 202, "{answer:?}");
    }
}

async fn chain() -> (Anvil, RpcProxy) {
    let anvil = Anvil::start(AnvilOptions::default()).await;
    let proxy = RpcProxy::start(anvil.url()).await;
    proxy.delay(METHOD, TAKES);
    (anvil, proxy)
}

#[tokio::test]
async fn one_node_keeps_to_its_limit() {
    let (anvil, proxy) = chain().await;
    let signer = anvil.accounts().await[0].clone();
    for (limit, expected) in [(0, 12), (3, 3)] {
        proxy.reset();
        let solo = Solo::start_with(|options| {
            options
                .without_signers()
                .endpoint(&proxy.url())
                .development_keys(1)
                .max_concurrency(limit)
        })
        .await;
        ask(&solo.node, &signer, 12).await;
        let seen = at_once(&proxy);
        if limit == 0 {
            // What the endpoint can do may be found out at the same time.
            assert!(seen >= expected, "what is measured can be seen: {seen}");
        } else {
            assert!(seen <= expected, "{seen}");
            assert_eq!(solo.node.metric("stile_chain_call_places").await, 3.0);
        }
    }
}

/// Calls that the nodes may have under way together.
const LIMIT: usize = 4;

const ENDPOINTS: &str = "/api/v1/pools/chain:31337/members";

/// Two nodes that know each other and share a limit on Redis.
struct Two {
    a: StileProcess,
    b: StileProcess,
    accounts: Vec<String>,
    proxy: RpcProxy,
    redis: Redis,
    _anvil: Anvil,
    _database: Database,
}

impl Two {
    /// A slot that nobody extends lasts for so long.
    async fn start(job_ttl: &str) -> Self {
        let (database, redis, (anvil, proxy)) =
            tokio::join!(Database::new(), Redis::start(), chain());
        let accounts = anvil.accounts().await;
        let options = |name| {
            NodeOptions::postgres(name, &database.url, &[])
                .endpoint(&proxy.url())
                .development_keys(2)
                .lease("8s", "1s")
                .set("cluster.not_holder", "accept")
                .set("redis.url", redis.url())
                .set("registry.redis_timeout", "2s")
                .set("registry.job_ttl", job_ttl)
                .max_concurrency(LIMIT as u32)
        };
        let (a, b) = (options("a"), options("b"));
        let (a, b) = tokio::join!(a.start(), b.start());
        eventually("the endpoint to be known", async || {
            let members = a.get(ENDPOINTS).await.ok();
            (ids(&members).len() == 1).then_some(())
        })
        .await;
        eventually("both nodes to be known to each other", async || {
            let (of_a, of_b) =
                (a.metric("stile_nodes_live").await, b.metric("stile_nodes_live").await);
            (of_a == 2.0 && of_b == 2.0).then_some(())
        })
        .await;
        Self { a, b, accounts, proxy, redis, _anvil: anvil, _database: database }
    }

    async fn places(&self) -> [f64; 2] {
        let of = async |node: &StileProcess| node.metric("stile_chain_call_places").await;
        [of(&self.a).await, of(&self.b).await]
    }

    /// Waits until the first node has at least so many places, while it wants all there are.
    async fn first_has(&self, places: usize) {
        let demand = async {
            loop {
                ask(&self.a, &self.accounts[0], 15).await;
            }
        };
        let has = eventually_within(2 * testkit::DEADLINE, "one node to have places", async || {
            let has = self.a.metric("stile_chain_call_places").await;
            (has >= places as f64).then_some(())
        });
        tokio::select! {
            () = demand => {}
            () = has => {}
        }
    }
}

#[tokio::test]
async fn two_nodes_share_a_limit() {
    let two = Two::start("60s").await;
    // What the nodes had each to themselves before they knew each other is given back.
    eventually("the nodes to have no more than there is", async || {
        (two.places().await.iter().sum::<f64>() <= LIMIT as f64).then_some(())
    })
    .await;
    two.proxy.reset();
    tokio::join!(ask(&two.a, &two.accounts[0], 15), ask(&two.b, &two.accounts[1], 15));
    let seen = at_once(&two.proxy);
    // A node without a slot may make one call.
    assert!((1..=LIMIT + 1).contains(&seen), "{seen}");
    let endpoint = eventually("the endpoint to be known still", async || {
        two.a.get(ENDPOINTS).await.ok()["items"].get(0).cloned()
    })
    .await;
    assert_eq!(endpoint["features"]["maxConcurrency"], LIMIT);
    assert_eq!(endpoint["services"], json!({ "eth": ["31337"] }));
    let shown = endpoint.to_string();
    assert!(shown.contains(two.proxy.url().trim_start_matches("http://").trim_end_matches('/')));

    // Its slots are for Stile's calls, and nobody else gets one.
    for body in [
        json!({ "session": "s", "services": [], "pool": "chain:31337" }),
        json!({ "session": "s", "services": ["eth"] }),
    ] {
        let mut in_a_row = 0;
        eventually("slots to be refused, and to be there still", async || {
            let refused = two.a.post("/api/v1/dispatch", body.clone()).await;
            match (refused.status, refused.problem().as_str()) {
                (409, "node-reserved") => in_a_row += 1,
                // The nodes may have them all, for a while.
                (429, "nodes-full") => in_a_row = 0,
                _ => panic!("{refused:?}"),
            }
            (in_a_row > LIMIT).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn what_a_dead_node_had_comes_back() {
    let two = Two::start("1h").await;
    tokio::join!(ask(&two.a, &two.accounts[0], 15), ask(&two.b, &two.accounts[1], 15));
    two.b.kill().await;
    two.first_has(LIMIT).await;
}

#[tokio::test]
async fn while_redis_is_away_each_node_has_its_part() {
    let two = Two::start("5s").await;
    kill(&two.redis).await;
    eventually("each node to have half of it", async || {
        (two.places().await == [LIMIT as f64 / 2.0; 2]).then_some(())
    })
    .await;
    two.proxy.reset();
    tokio::join!(ask(&two.a, &two.accounts[0], 10), ask(&two.b, &two.accounts[1], 10));
    let seen = at_once(&two.proxy);
    assert!((1..=LIMIT).contains(&seen), "{seen}");
    let _redis = Redis::start_on(two.redis.port(), &[]).await.expect("the port is still ours");
    // More than its part, from there. The other one asks for a block now and then.
    two.first_has(LIMIT - 1).await;
}
