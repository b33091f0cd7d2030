//! Many dispatchers in several processes, some of which are killed.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use stile_registry::{NodeId, Registry, Settings};
use testkit::{DEADLINE, Launch, Process, Redis, RedisCluster, Signal, eventually};

use crate::common::{id, request, settings, speech};

const NODES: [&str; 4] = ["a", "b", "c", "d"];
const MAX: u32 = 5;
const PROCESSES: usize = 3;
const DISPATCHERS: usize = 64;
const URL: &str = "REGISTRY_TEST_URL";
const COUNT_URL: &str = "REGISTRY_TEST_COUNT_URL";
const PREFIX: &str = "REGISTRY_TEST_PREFIX";

fn shared(prefix: String) -> Settings {
    Settings { key_prefix: prefix, job_ttl: Duration::from_secs(4), ..settings() }
}

/// Each holder counts itself in while it has a slot, past the registry: under its own process, so that
/// those of a killed one can be taken off. Returns how many hold a slot of the node now.
const COUNT: &str = "redis.call('HINCRBY', KEYS[1], ARGV[1], ARGV[2])
local sum = 0
for _, count in ipairs(redis.call('HVALS', KEYS[1])) do sum = sum + count end
return sum";

fn held(prefix: &str, node: &NodeId) -> String {
    format!("{prefix}:held:{node}")
}

/// One of the processes; started by the test below.
#[test]
#[ignore = "a part of another test"]
fn worker() {
    let given = |name| std::env::var(name).ok();
    let (Some(url), Some(count), Some(prefix)) = (given(URL), given(COUNT_URL), given(PREFIX))
    else {
        return;
    };
    tokio::runtime::Runtime::new().unwrap().block_on(work(url, count, prefix));
}

async fn work(url: String, count_url: String, prefix: String) {
    let registry = Registry::connect(&url, shared(prefix.clone())).await.unwrap();
    let client = redis::Client::open(count_url).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    let done = Arc::new(AtomicU64::new(0));
    for number in 0..DISPATCHERS.div_ceil(PROCESSES) {
        let (registry, mut redis) = (registry.clone(), connection.clone());
        let (prefix, done) = (prefix.clone(), Arc::clone(&done));
        tokio::spawn(async move {
            let count = redis::Script::new(COUNT);
            let process = std::process::id();
            for round in 0u64.. {
                let wish = request(&format!("s{number}"), "asr", Some("p"));
                let Ok(job) = registry.dispatch(&wish).await else {
                    tokio::time::sleep(Duration::from_millis(1 + round % 3)).await;
                    continue;
                };
                let key = held(&prefix, &job.node_id);
                let holders: u32 =
                    count.key(&key).arg(process).arg(1).invoke_async(&mut redis).await.unwrap();
                if holders > MAX {
                    println!("\nOVER {holders} hold slots of {}", job.node_id);
                }
                tokio::time::sleep(Duration::from_millis(round % 7)).await;
                let _: u32 =
                    count.key(&key).arg(process).arg(-1).invoke_async(&mut redis).await.unwrap();
                // Sometimes it forgets, and the slot has to come back by itself.
                if round % 50 != 49 {
                    let _ = registry.complete(&job.job_id).await;
                }
                if done.fetch_add(1, Ordering::Relaxed) == 100 {
                    println!("\nBUSY");
                }
            }
        });
    }
    std::future::pending::<()>().await;
}

/// Where the slots are, and where their holders are counted.
struct Place<'a> {
    url: String,
    counts: &'a Redis,
    prefix: String,
}

impl Place<'_> {
    fn start(&self) -> Process {
        let test = ["--exact", "processes::worker", "--ignored", "--nocapture"];
        Launch::new(std::env::current_exe().unwrap())
            .args(test)
            .args(["--test-threads", "1"])
            .env(URL, &self.url)
            .env(COUNT_URL, self.counts.url())
            .env(PREFIX, &self.prefix)
            .start()
    }

    /// Kills it. Its slots are still taken; those who held them are not there any more.
    async fn kill(&self, worker: &Process) {
        worker.signal(Signal::Kill);
        worker.wait_exit(DEADLINE).await;
        assert!(!worker.stdout().contains("OVER"), "{}", worker.stdout());
        for name in NODES {
            let held = held(&self.prefix, &id(name));
            self.counts.command(&format!("HDEL {held} {}", worker.id())).await;
        }
    }
}

/// Any number below this one.
fn any(below: usize) -> usize {
    let random = RandomState::new().build_hasher().finish();
    usize::try_from(random % below as u64).unwrap()
}

async fn no_slot_is_given_out_twice(url: String, counts: &Redis, rounds: usize) {
    let place = Place { url, counts, prefix: settings().key_prefix };
    let registry = Registry::connect(&place.url, shared(place.prefix.clone())).await.unwrap();
    let kept: Vec<_> = NODES.iter().map(|name| registry.keep(speech(name, MAX, &["p"]))).collect();
    for kept in &kept {
        kept.registered().await.unwrap();
    }
    let mut workers: Vec<Process> = (0..PROCESSES).map(|_| place.start()).collect();
    for _ in 0..rounds {
        for worker in &workers {
            worker.wait_for_line(|line| line == "BUSY", DEADLINE).await;
        }
        // Whoever it is and whatever it is doing at the moment.
        tokio::time::sleep(Duration::from_millis(any(200) as u64)).await;
        let victim = &mut workers[any(PROCESSES)];
        place.kill(victim).await;
        *victim = place.start();
    }
    for worker in &workers {
        worker.wait_for_line(|line| line == "BUSY", DEADLINE).await;
        place.kill(worker).await;
    }
    for name in NODES {
        eventually("all slots to come back", async || {
            let capacity = registry.capacity(&id(name)).await.ok()??;
            assert!(capacity.used() <= MAX, "{capacity:?}");
            (capacity.used() == 0).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_slot_is_given_out_twice_and_none_is_lost() {
    let redis = Redis::start().await;
    no_slot_is_given_out_twice(redis.url(), &redis, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_slot_is_given_out_twice_and_none_is_lost_on_a_cluster() {
    let (cluster, counts) = tokio::join!(RedisCluster::start(), Redis::start());
    no_slot_is_given_out_twice(cluster.url(), &counts, 2).await;
}
