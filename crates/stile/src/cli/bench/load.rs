//! A closed loop of callers: each asks again as soon as it has its answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use stile_domain::Lane;

use super::Failure;

/// What callers saw.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) per_second: f64,
    pub(super) p50: Duration,
    pub(super) p99: Duration,
    pub(super) failed: u64,
}

/// One call for a lane's nonce; `false` if it was refused.
pub(super) trait Caller: Send + Sync + 'static {
    fn call(&self, lane: Lane) -> impl Future<Output = bool> + Send;
}

/// Lets `callers` run, and after a warm-up counts the answers they get for as long as `measured`.
/// Callers are spread evenly over the lanes.
pub(super) async fn run(
    caller: Arc<impl Caller>,
    lanes: &[Lane],
    callers: usize,
    measured: Duration,
) -> Result<Seen, Failure> {
    let warm_up = measured / 4;
    let begin = Instant::now() + warm_up;
    let end = begin + measured;
    let tasks: Vec<_> = (0..callers)
        .map(|place| {
            let (caller, lane) = (Arc::clone(&caller), lanes[place % lanes.len()]);
            tokio::spawn(async move {
                let mut latencies = Histogram::<u64>::new(3)?;
                let mut failed = 0;
                loop {
                    let asked = Instant::now();
                    if asked >= end {
                        return Ok::<_, Failure>((latencies, failed));
                    }
                    let got = caller.call(lane).await;
                    let answered = Instant::now();
                    match ((begin..end).contains(&answered), got) {
                        (false, _) => {}
                        (true, true) => {
                            latencies.record((answered - asked).as_micros() as u64)?;
                        }
                        (true, false) => failed += 1,
                    }
                }
            })
        })
        .collect();
    let (mut latencies, mut failed) = (Histogram::<u64>::new(3)?, 0);
    for task in tasks {
        let (seen, refused) = task.await??;
        latencies.add(seen)?;
        failed += refused;
    }
    let quantile = |q| Duration::from_micros(latencies.value_at_quantile(q));
    Ok(Seen {
        per_second: latencies.len() as f64 / measured.as_secs_f64(),
        p50: quantile(0.5),
        p99: quantile(0.99),
        failed,
    })
}
