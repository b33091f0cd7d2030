//! A closed loop of callers: each asks again as soon as it has its answer.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::Failure;

/// What callers saw.
#[derive(Debug)]
pub(super) struct Seen {
    /// Granted a second. A call may ask for many.
    pub(super) per_second: f64,
    /// How long a call took.
    pub(super) p50: Duration,
    pub(super) p99: Duration,
    pub(super) failed: u64,
}

/// What one call brought.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Got {
    pub(super) granted: u64,
    pub(super) refused: u64,
}

impl Got {
    /// The answer to a call that asks for one.
    pub(super) fn one(granted: bool) -> Self {
        Self { granted: granted.into(), refused: (!granted).into() }
    }
}

/// One who calls.
pub(super) trait Caller: Send + 'static {
    fn call(&mut self) -> impl Future<Output = Got> + Send;
}

/// How long callers run before they are counted.
pub(super) fn warm_up(measured: Duration) -> Duration {
    measured / 4
}

/// Lets the callers run, and after a warm-up counts the answers they get for as long as `measured`.
pub(super) async fn run(callers: Vec<impl Caller>, measured: Duration) -> Result<Seen, Failure> {
    let begin = Instant::now() + warm_up(measured);
    let end = begin + measured;
    let tasks: Vec<_> = callers
        .into_iter()
        .map(|mut caller| {
            tokio::spawn(async move {
                let (mut latencies, mut all) = (Histogram::<u64>::new(3)?, Got::default());
                loop {
                    let asked = Instant::now();
                    if asked >= end {
                        return Ok::<_, Failure>((latencies, all));
                    }
                    let got = caller.call().await;
                    let answered = Instant::now();
                    if (begin..end).contains(&answered) {
                        all.granted += got.granted;
                        all.refused += got.refused;
                        if got.granted > 0 {
                            latencies.record((answered - asked).as_micros() as u64)?;
                        }
                    }
                }
            })
        })
        .collect();
    let (mut latencies, mut all) = (Histogram::<u64>::new(3)?, Got::default());
    for task in tasks {
        let (seen, got) = task.await??;
        latencies.add(seen)?;
        all.granted += got.granted;
        all.refused += got.refused;
    }
    let quantile = |q| Duration::from_micros(latencies.value_at_quantile(q));
    Ok(Seen {
        per_second: all.granted as f64 / measured.as_secs_f64(),
        p50: quantile(0.5),
        p99: quantile(0.99),
        failed: all.refused,
    })
}
