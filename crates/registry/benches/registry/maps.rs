//! A hit, beside the same read on other maps: look a node up by name, see that it is not too old, and
//! take a reference to it. On one thread and on many, while a writer replaces nodes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use stile_registry::{Heartbeat, Node, NodeId, Registration, Registry, Settings};

const NODES: usize = 1_000;
const READS: usize = 1_000_000;
const ROUNDS: usize = 5;
const THREADS: [usize; 3] = [1, 4, 16];
const TTL: Duration = Duration::from_secs(600);
const WRITE_PAUSE: Duration = Duration::from_micros(100);

/// A map that nodes are read from and written to.
trait Reads: Sync {
    fn read(&self, id: &NodeId) -> Option<Arc<Node>>;
    fn write(&self, node: &Arc<Node>);
}

struct Ours<'a>(&'a Registry, &'a tokio::runtime::Runtime);

impl Reads for Ours<'_> {
    fn read(&self, id: &NodeId) -> Option<Arc<Node>> {
        let mut read = std::pin::pin!(self.0.get_node(id));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match read.as_mut().poll(&mut context) {
            std::task::Poll::Ready(node) => node.unwrap(),
            std::task::Poll::Pending => panic!("a hit waits for nothing"),
        }
    }

    fn write(&self, node: &Arc<Node>) {
        let beat = Heartbeat::of(node.incarnation);
        self.1.block_on(self.0.heartbeat(&node.id, &beat)).unwrap();
    }
}

type Aged = (Arc<Node>, Instant);

fn fresh((node, since): &Aged) -> Option<Arc<Node>> {
    (since.elapsed() < TTL).then(|| Arc::clone(node))
}

impl Reads for RwLock<HashMap<NodeId, Aged>> {
    fn read(&self, id: &NodeId) -> Option<Arc<Node>> {
        self.read().unwrap().get(id).and_then(fresh)
    }

    fn write(&self, node: &Arc<Node>) {
        let aged = (Arc::new(Node::clone(node)), Instant::now());
        self.write().unwrap().insert(node.id.clone(), aged);
    }
}

impl Reads for dashmap::DashMap<NodeId, Aged> {
    fn read(&self, id: &NodeId) -> Option<Arc<Node>> {
        self.get(id).and_then(|aged| fresh(&aged))
    }

    fn write(&self, node: &Arc<Node>) {
        self.insert(node.id.clone(), (Arc::new(Node::clone(node)), Instant::now()));
    }
}

impl Reads for moka::sync::Cache<NodeId, Arc<Node>> {
    fn read(&self, id: &NodeId) -> Option<Arc<Node>> {
        self.get(id)
    }

    fn write(&self, node: &Arc<Node>) {
        self.insert(node.id.clone(), Arc::new(Node::clone(node)));
    }
}

/// How long this thread has been on a processor, in nanoseconds: what other programs on the machine
/// take does not count, waiting for a cache line does.
fn on_processor() -> u64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    statistics.split(' ').next().unwrap().parse().unwrap()
}

/// Nanoseconds for a read, on the processor and by the clock, by threads that all read while one more
/// writes.
fn time(map: &dyn Reads, nodes: &[Arc<Node>], threads: usize) -> [f64; 2] {
    let stop = AtomicBool::new(false);
    let (spent, passed) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..threads)
            .map(|thread| {
                let (spent, passed) = (&spent, &passed);
                scope.spawn(move || {
                    let reads = READS / threads;
                    let mut at = thread * 7_919;
                    let (began, since) = (on_processor(), Instant::now());
                    for _ in 0..reads {
                        at = (at + 613) % nodes.len();
                        std::hint::black_box(map.read(&nodes[at].id).unwrap());
                    }
                    let took = on_processor() - began;
                    let waited = u64::try_from(since.elapsed().as_nanos()).unwrap();
                    spent.fetch_add(took / reads as u64, Ordering::Relaxed);
                    passed.fetch_add(waited / reads as u64, Ordering::Relaxed);
                })
            })
            .collect();
        scope.spawn(|| {
            for node in nodes.iter().cycle() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                map.write(node);
                std::thread::sleep(WRITE_PAUSE);
            }
        });
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        stop.store(true, Ordering::Relaxed);
    });
    [spent, passed].map(|sum| sum.into_inner() as f64 / threads as f64)
}

pub(crate) fn run(runtime: &tokio::runtime::Runtime) {
    let _inside = runtime.enter();
    let settings = Settings {
        l1_ttl: TTL,
        l2_ttl: TTL,
        node_ttl: TTL,
        tombstone_ttl: TTL,
        ..Settings::default()
    };
    let registry = Registry::in_process(settings).unwrap();
    let nodes: Vec<Arc<Node>> = (0..NODES)
        .map(|number| {
            let id = NodeId::new(format!("node-{number:05}")).unwrap();
            runtime.block_on(registry.register(&Registration::new(id, 4))).unwrap()
        })
        .collect();
    let locked: RwLock<HashMap<NodeId, Aged>> = RwLock::default();
    let sharded = dashmap::DashMap::new();
    let cached = moka::sync::Cache::builder().max_capacity(100_000).time_to_live(TTL).build();
    let ours = Ours(&registry, runtime);
    let maps: [(&str, &dyn Reads); 4] = [
        ("get_node", &ours),
        ("moka", &cached),
        ("dashmap", &sharded),
        ("RwLock<HashMap>", &locked),
    ];
    for (_, map) in &maps[1..] {
        nodes.iter().for_each(|node| map.write(node));
    }
    println!("reads of {NODES} nodes with a writer beside them:");
    println!("nanoseconds a read, on the processor / by the clock");
    print!("{:<18}", "threads");
    THREADS.iter().for_each(|threads| print!("{threads:>14}"));
    println!();
    for (name, map) in maps {
        print!("{name:<18}");
        for threads in THREADS {
            let rounds = [(); ROUNDS].map(|()| time(map, &nodes, threads));
            let middle = |which: usize| {
                let mut times = rounds.map(|round| round[which]);
                times.sort_by(f64::total_cmp);
                times[ROUNDS / 2]
            };
            print!("{:>14}", format!("{:.0} / {:.0}", middle(0), middle(1)));
        }
        println!();
    }
}
