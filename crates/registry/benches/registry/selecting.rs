//! Choosing among many nodes.

use stile_registry::{NodeId, PoolId, Query, Registration, Registry, Requirement, Settings};

use crate::measure::one_by_one;

pub(crate) async fn run() {
    for number in [10, 100, 1_000, 10_000] {
        let registry = Registry::in_process(Settings::default()).unwrap();
        let pool = PoolId::new("p").unwrap();
        for node in 0..number {
            let id = NodeId::new(format!("node-{node:05}")).unwrap();
            let mut registration = Registration::new(id, 10);
            registration.pools = vec![pool.clone()];
            // One in four lacks what is asked for.
            let services = if node % 4 == 0 { "{\"asr\":[\"zh\"]}" } else { SPEECH };
            registration.services = serde_json::from_str(services).unwrap();
            registry.register(&registration).await.unwrap();
        }
        let services = Requirement::list("asr:zh,nmt,tts:en").unwrap();
        for (name, limit) in [("all", None), ("the best 8", Some(8))] {
            let query = Query { pool: Some(pool.clone()), services: services.clone(), limit };
            registry.select(&query).await.unwrap();
            let times = one_by_one(2_000, async || {
                std::hint::black_box(registry.select(&query).await.unwrap());
            });
            times.await.show(&format!("select {name} of {number} nodes"));
        }
    }
}

const SPEECH: &str = r#"{"asr":["zh","en"],"nmt":["zh","en"],"tts":["zh","en"]}"#;
