//! A Stile node as the registry knows it.
//!
//! It is in the pool `stile` and takes no jobs. What the registry has no word for is among its
//! features.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use stile_domain::{ChainId, Holder, Incarnation, NodeId, NodeMode, Timestamp};
use stile_registry::{InvalidName, PoolId, Registration, ServiceName, Services, Status};
use stile_store::{LiveNode, NodeRecord};
use uuid::Uuid;

/// The pool of Stile's own nodes.
pub const POOL: &str = "stile";

/// What the names of the pools of chain endpoints begin with.
pub const ENDPOINT_POOLS: &str = "chain:";

/// Whether a pool is for what Stile registers itself, and for nobody else.
pub fn is_reserved(pool: &PoolId) -> bool {
    pool.as_str() == POOL || pool.as_str().starts_with(ENDPOINT_POOLS)
}

/// What a node offers: bare nonces, and transactions if it signs, each for its chains.
pub(crate) fn services(chains: impl Iterator<Item = ChainId>, signs: bool) -> Services {
    let chains: BTreeSet<ServiceName> =
        chains.filter_map(|chain| ServiceName::new(chain.to_string()).ok()).collect();
    let names = if signs { &["nonce", "tx"][..] } else { &["nonce"] };
    let names = names.iter().filter_map(|name| ServiceName::new(name).ok());
    names.map(|name| (name, chains.clone())).collect()
}

/// What a node tells of itself, in the registry's words.
pub(crate) fn registration(
    record: &NodeRecord,
    services: &Services,
) -> Result<Registration, InvalidName> {
    let Holder { node, incarnation, url } = &record.holder;
    let id = stile_registry::NodeId::new(&node.0)?;
    let features = [
        ("incarnation", json!(incarnation.0)),
        ("url", json!(url)),
        ("mode", json!(record.mode.name())),
        ("serves", json!(record.serves)),
        ("draining", json!(record.draining)),
        ("version", json!(env!("CARGO_PKG_VERSION"))),
    ];
    Ok(Registration {
        pools: vec![PoolId::new(POOL)?],
        services: services.clone(),
        status: if record.draining { Status::Offline } else { Status::Online },
        features: features.map(|(name, value)| (name.to_owned(), value)).into(),
        ..Registration::new(id, 0)
    })
}

/// A node of the pool as the engine knows nodes; `None` if it is none of Stile's.
pub fn live_node(node: &stile_registry::Node) -> Option<LiveNode> {
    let text = |name: &str| node.features.get(name).and_then(Value::as_str);
    let at = |ms: u64| Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok();
    Some(LiveNode {
        record: NodeRecord {
            holder: Holder {
                node: NodeId(node.id.to_string()),
                incarnation: Incarnation(Uuid::try_parse(text("incarnation")?).ok()?),
                url: text("url").map(str::to_owned),
            },
            mode: NodeMode::of_name(text("mode")?)?,
            serves: text("serves")?.to_owned(),
            draining: node.features.get("draining").and_then(Value::as_bool)?,
        },
        // Starts are numbered by the time at which they were first heard of.
        started_at: at(node.incarnation)?,
        seen_at: at(node.last_heartbeat_ms)?,
    })
}

/// A node that is known by the store alone, in the registry's form, for whoever lists nodes.
pub fn as_registered(live: &LiveNode) -> Option<stile_registry::Node> {
    let said = registration(&live.record, &Services::new()).ok()?;
    let ms = |at: Timestamp| u64::try_from(at.as_millisecond()).unwrap_or(0);
    Some(stile_registry::Node {
        id: said.id,
        incarnation: ms(live.started_at),
        sequence: 0,
        status: said.status,
        health: said.health,
        pools: said.pools,
        services: said.services,
        resources: stile_registry::Resources::default(),
        installed_services: said.installed_services,
        features: said.features,
        last_heartbeat_ms: ms(live.seen_at),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> NodeRecord {
        NodeRecord {
            holder: Holder {
                node: NodeId("stile-a".into()),
                incarnation: Incarnation::fresh(),
                url: Some("http://a:7420".into()),
            },
            mode: NodeMode::WorkerQueue,
            serves: "0123456789abcdef".into(),
            draining: true,
        }
    }

    #[test]
    fn what_a_node_tells_is_what_the_others_hear() {
        let at = Timestamp::from_millisecond(1_700_000_000_123).unwrap();
        for url in [Some("http://a:7420".to_owned()), None] {
            let mut record = record();
            record.holder.url = url;
            let live = LiveNode { record, started_at: at, seen_at: at };
            let node = as_registered(&live).unwrap();
            assert_eq!(node.status, Status::Offline, "whoever is about to end wants no more");
            assert_eq!(live_node(&node), Some(live));
        }
    }

    #[test]
    fn who_does_not_speak_as_a_stile_node_is_none() {
        let at = Timestamp::UNIX_EPOCH;
        let node = as_registered(&LiveNode { record: record(), started_at: at, seen_at: at });
        let node = node.unwrap();
        for missing in ["incarnation", "mode", "serves", "draining"] {
            let mut node = node.clone();
            node.features.remove(missing);
            assert_eq!(live_node(&node), None, "{missing}");
        }
    }

    #[test]
    fn services_name_the_chains() {
        let chains = || [1, 10].into_iter().map(|id| ChainId::new(id).unwrap());
        let text = |services| serde_json::to_value(services).unwrap();
        assert_eq!(text(services(chains(), false)), json!({ "nonce": ["1", "10"] }));
        assert_eq!(
            text(services(chains(), true)),
            json!({ "nonce": ["1", "10"], "tx": ["1", "10"] })
        );
    }

    #[test]
    fn pools_of_ours_are_reserved() {
        for (pool, reserved) in [("stile", true), ("chain:1", true), ("stile-x", false)] {
            assert_eq!(is_reserved(&PoolId::new(pool).unwrap()), reserved, "{pool}");
        }
    }
}
