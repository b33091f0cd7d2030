//! Those who only want their answers: so many calls a second, whether or not the last was answered.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::time::MissedTickBehavior;

use super::super::Failure;
use super::super::http::Connection;
use super::super::nodes::Node;

/// Connections that calls are spread over.
const CONNECTIONS: usize = 20;

/// What they saw.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) calls: u64,
    pub(super) failed: u64,
    pub(super) p50: Duration,
    pub(super) p99: Duration,
}

/// Calls for as long as `measured`.
pub(super) async fn run(
    node: &Node,
    key: &str,
    signer: &str,
    per_second: usize,
    measured: Duration,
) -> Result<Seen, Failure> {
    let paths = Arc::new([
        format!("/api/v1/nonces/{signer}/allocate"),
        format!("/api/v1/signers/{signer}"),
    ]);
    let every = Duration::from_secs_f64(CONNECTIONS as f64 / per_second.max(1) as f64);
    let mut tasks = Vec::new();
    for number in 0..CONNECTIONS {
        let mut connection = node.connect().await?;
        connection.use_key(key)?;
        let begin = Instant::now() + every.mul_f64(number as f64 / CONNECTIONS as f64);
        let paths = Arc::clone(&paths);
        tasks.push(tokio::spawn(calls(connection, paths, begin, every, measured)));
    }
    let (mut all, mut failed) = (Histogram::<u64>::new(3)?, 0);
    for task in tasks {
        let (seen, lost) = task.await??;
        all.add(seen)?;
        failed += lost;
    }
    let quantile = |q| Duration::from_micros(all.value_at_quantile(q));
    Ok(Seen { calls: all.len(), failed, p50: quantile(0.5), p99: quantile(0.99) })
}

async fn calls(
    mut connection: Connection,
    paths: Arc<[String; 2]>,
    begin: Instant,
    every: Duration,
    measured: Duration,
) -> Result<(Histogram<u64>, u64), Failure> {
    let (mut latencies, mut failed) = (Histogram::<u64>::new(3)?, 0);
    let mut ticks = tokio::time::interval_at(begin.into(), every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let end = begin + measured;
    for number in 0.. {
        // From when the call was due, so that a server which stands still is seen to.
        let due = ticks.tick().await.into_std();
        if due >= end {
            break;
        }
        let answer = match number % 2 {
            0 => connection.post(&paths[0], "{}".to_owned()).await,
            _ => connection.get(&paths[1]).await,
        };
        if answer.is_ok_and(|(status, _)| status.is_success()) {
            latencies.record(due.elapsed().as_micros() as u64)?;
        } else {
            failed += 1;
        }
    }
    Ok((latencies, failed))
}
