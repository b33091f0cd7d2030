//! Allocation on the embedded store, and the pure planning in it, for watching one change against
//! another. `stile bench allocate` compares both stores and modes with their raw limits.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use stile::{Address, ChainId, Lane, Mode, Settings, Stile};
use stile_domain::{HoldId, Planner, Released};

fn plan(criterion: &mut Criterion) {
    let released: Vec<Released> =
        (0..100).map(|nonce| Released { nonce, hold: HoldId::fresh() }).collect();
    criterion.bench_function("plan 500 nonces, 100 of them reissued", |bencher| {
        bencher.iter(|| {
            let mut planner = Planner::new(1000);
            planner.offer(released.iter().copied(), []);
            black_box(planner.take(500))
        });
    });
}

fn allocate(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let directory = tempfile::tempdir_in(".").expect("a directory");
    let lane = Lane::new(ChainId::new(31337).expect("in range"), Address::repeat_byte(0x11));
    let mut group = criterion.benchmark_group("allocate on SQLite");
    for (name, mode) in [("basic", Mode::Basic), ("worker-queue", Settings::new("default").mode)] {
        let url = format!("sqlite://{}", directory.path().join(format!("{name}.db")).display());
        let change = |settings: &mut Settings| {
            settings.mode = mode;
            settings.hold_timeout = Duration::from_secs(3600);
        };
        let stile = runtime.block_on(Stile::builder(url).settings(change).start()).expect("a node");
        for callers in [1u64, 256] {
            group.throughput(Throughput::Elements(callers));
            group.bench_function(BenchmarkId::new(name, callers), |bencher| {
                bencher.to_async(&runtime).iter(|| async {
                    let calls = (0..callers).map(|_| stile.nonces().allocate(lane));
                    futures::future::join_all(calls).await
                });
            });
        }
        runtime.block_on(stile.shutdown());
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(3));
    targets = plan, allocate
}
criterion_main!(benches);
