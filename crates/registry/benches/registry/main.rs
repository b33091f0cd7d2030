//! What the registry costs: `cargo bench -p stile-registry`, or with a part of a title to run only
//! those that have it. Needs `redis-server`.

#![allow(clippy::unwrap_used, reason = "a bench that cannot go on ends")]

mod maps;
mod measure;
mod redis_trips;
mod selecting;

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let runs = |title: &str| wanted.is_empty() || wanted.iter().any(|part| title.contains(part));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if runs("reads") {
        maps::run(&runtime);
    }
    if runs("select") {
        runtime.block_on(selecting::run());
    }
    if runs("redis") {
        runtime.block_on(redis_trips::run());
    }
}
