//! Short runs under faults. Long ones are a command: see `crates/chaos`.
//!
//! Fails if any of the rules C1 to C12 is violated, or if the run did not reach what it is for.

use std::time::Duration;

use chaos::schedule::{Kind, Kinds};
use chaos::{Options, Summary};

/// How long faults come; then everything is left to settle.
const LENGTH: Duration = Duration::from_secs(70);

/// What comes when is fixed by the seed, and the first has every kind of fault. How far the cluster has
/// come by then is the machine's business, so a run that missed something is followed by a longer one.
const RUNS: [(u64, u32); 2] = [(11, 1), (8, 2)];

#[tokio::test(flavor = "multi_thread")]
async fn faults_from_a_seed_violate_no_rule() {
    let mut summary = Summary::default();
    for (seed, times) in RUNS {
        let options = Options::new(env!("CARGO_BIN_EXE_stile"), seed, LENGTH * times);
        let outcome = chaos::run::run(&options).await;
        println!("seed {seed}\n{}", outcome.figures);
        assert!(outcome.violations.is_empty(), "seed {seed}\n{}", outcome.stories(3));
        summary.add(seed, outcome.figures, outcome.violations.len());
        if summary.missing().is_empty() {
            return;
        }
    }
    panic!("not reached: {:?}", summary.missing());
}

/// Whatever is lost with a backup that is put back, or with a standby that lagged, is paid once: it is on
/// the chain, or it is sent when somebody who knows says so.
#[tokio::test(flavor = "multi_thread")]
async fn hole_20_restores_pay_nobody_twice() {
    let mut options = Options::new(env!("CARGO_BIN_EXE_stile"), 3, Duration::from_secs(40));
    options.restores = true;
    options.kinds = Kinds::of(&[Kind::Restore, Kind::PromoteLagging, Kind::Kill]);
    let outcome = chaos::run::run(&options).await;
    println!("{}", outcome.figures);
    assert!(outcome.violations.is_empty(), "{}", outcome.stories(3));
    assert!(outcome.coverage.sent_and_lost > 0, "nothing was lost");
}
