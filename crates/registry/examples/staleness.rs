//! How long another instance shows an old value after a write: with Redis telling of changes, with
//! writers publishing them, and with version checks alone. Needs `redis-server`.
//!
//! `cargo run --release -p stile-registry --example staleness`

#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]

use std::time::{Duration, Instant};

use stile_registry::{
    Heartbeat, Invalidation, NodeId, Registration, Registry, ResourceReport, Settings,
};
use testkit::Redis;

#[tokio::main]
async fn main() {
    let server = Redis::start().await;
    println!(
        "how long another instance shows the old value, read every 200 µs, after a heartbeat was answered"
    );
    let ways = [
        ("tracking", Invalidation::Tracking, 1_000),
        ("pub/sub", Invalidation::PubSub, 1_000),
        ("version checks", Invalidation::Off, 30),
    ];
    for (number, (name, invalidation, writes)) in ways.into_iter().enumerate() {
        let settings = Settings {
            invalidation,
            key_prefix: format!("staleness-{number}"),
            ..Settings::default()
        };
        let writer = Registry::connect(&server.url(), settings.clone()).await.unwrap();
        let reader = Registry::connect(&server.url(), settings).await.unwrap();
        let id = NodeId::new("n").unwrap();
        let node = writer.register(&Registration::new(id.clone(), 1)).await.unwrap();
        // Until the reader listens, whichever way it does.
        tokio::time::sleep(Duration::from_secs(1)).await;
        reader.get_node(&id).await.unwrap();
        let mut times = Vec::new();
        for write in 1..=writes {
            let cpu_usage = f64::from(write);
            let report = ResourceReport { max_concurrency: 1, cpu_usage, ..Default::default() };
            let beat = Heartbeat { resources: Some(report), ..Heartbeat::of(node.incarnation) };
            writer.heartbeat(&id, &beat).await.unwrap();
            let written = Instant::now();
            while reader.get_node(&id).await.unwrap().unwrap().resources.cpu_usage != cpu_usage {
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
            times.push(written.elapsed());
            if writes < 100 {
                // At another moment of the first level's life each time.
                tokio::time::sleep(Duration::from_millis(37)).await;
            }
        }
        times.sort_unstable();
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        println!(
            "{name:<16} p50 {:>9.2?}  p90 {:>9.2?}  p99 {:>9.2?}  longest {:>9.2?}  ({} writes)",
            at(0.5),
            at(0.9),
            at(0.99),
            at(1.0),
            times.len()
        );
    }
}
