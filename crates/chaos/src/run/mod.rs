//! A run: a cluster is put up, clients call it, faults come and go, and what is left is gathered.
//!
//! | file | what is in it |
//! |---|---|
//! | `stage` | PostgreSQL, Redis, anvil, the nodes, and who watches them |
//! | `node` | one node: a real process, the ways to its database, its Redis and its chain |
//! | `configuration` | what nodes are told |
//! | `skew` | clocks that are wrong |
//! | `database` | the PostgreSQL servers under all nodes, and how they fail |
//! | `redis` | the Redis that nodes share in some runs, and how it fails |
//! | `sources` | whom nodes learn of each other from |
//! | `witness` | the store as somebody sees it who is no node |
//! | `chain` | the chain past the proxies |
//! | `clients` | who calls |
//! | `liar` | endpoints that lie |
//! | `manners` | endpoints that are not like others |
//! | `restores` | databases that go back to what they were |
//! | `person` | who says what became of what a restore has left open |
//! | `inflict` | how a fault is carried out, and ended |
//! | `diary` | where everybody writes down what they did and saw |
//! | `figures` | what is printed in the end |

mod chain;
mod clients;
mod configuration;
mod database;
mod diary;
mod figures;
mod inflict;
mod liar;
mod manners;
mod node;
mod person;
mod redis;
mod restores;
mod skew;
mod sources;
mod stage;
mod witness;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

pub use figures::Figures;
pub use sources::Sources;

use crate::check::{self, Coverage, Violation};
use crate::evidence::Evidence;
use crate::schedule::{self, Cast, Fault, Kind, Kinds};
use stage::Stage;

/// Lanes by what happens on them: transfers on all but the last, and outsiders on the first two, bare
/// nonces on the third, and a gap now and then on the last.
const LANES: usize = 4;
const SHARED_LANES: usize = 2;
const HOLD_LANE: usize = 2;
const QUIET_LANE: usize = 3;

/// Of which one lies at a time at most, so that a majority is honest.
const ENDPOINTS: usize = 3;

/// Short, so that reorganisations reach what was called done.
const CONFIRMATIONS: u64 = 3;

/// How long an endpoint is not used after it was caught lying.
const DISTRUSTED: Duration = Duration::from_secs(60);

/// How long a caller may keep a nonce.
const HOLD_MS: u64 = 4_000;

/// What is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The `stile` to run.
    pub binary: PathBuf,
    /// Where all chance comes from.
    pub seed: u64,
    /// How long faults come.
    pub length: Duration,
    /// How many nodes there are.
    pub nodes: usize,
    /// How many clients hand over transfers.
    pub senders: usize,
    /// The lease of a lane.
    pub lease_ms: u64,
    /// Whether the nodes share a Redis: said by the seed.
    pub redis: bool,
    /// Whether commits get lost that were answered: said by the seed.
    pub restores: bool,
    /// What may come at all.
    pub kinds: Kinds,
    /// Where the nodes' logs are kept.
    pub logs: Option<PathBuf>,
    /// What else the nodes find in their environment: a planted bug.
    pub environment: Vec<(String, String)>,
}

impl Options {
    /// The usual cluster.
    pub fn new(binary: impl Into<PathBuf>, seed: u64, length: Duration) -> Self {
        Self {
            binary: binary.into(),
            seed,
            length,
            nodes: 3,
            senders: 4,
            lease_ms: 2_000,
            redis: schedule::has_redis(seed),
            restores: schedule::has_restores(seed),
            kinds: Kinds::ALL,
            logs: None,
            environment: Vec::new(),
        }
    }

    /// How long everything has to settle once faults have stopped. A lie is over when the endpoint is
    /// trusted again: until then a transaction that no block has room for is not given up, as that takes
    /// the word of a majority.
    pub fn settle(&self) -> Duration {
        let lies = [Kind::LiarBlocks, Kind::LiarLeap, Kind::LiarReceipts, Kind::LiarFlap];
        let distrusted = lies.iter().any(|kind| self.kinds.has(*kind)).then_some(DISTRUSTED);
        let patience = Duration::from_millis(2 * self.lease_ms) + Duration::from_secs(60);
        patience + distrusted.unwrap_or_default()
    }

    fn cast(&self) -> Cast {
        Cast {
            nodes: self.nodes,
            endpoints: ENDPOINTS,
            shared_lanes: SHARED_LANES,
            lanes: LANES,
            lease_ms: self.lease_ms,
            redis: self.redis,
            restores: self.restores,
            kinds: self.kinds,
        }
    }
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// All that was seen.
    pub evidence: Evidence,
    /// What must not be.
    pub violations: Vec<Violation>,
    /// What was reached.
    pub coverage: Coverage,
    /// What is printed.
    pub figures: Figures,
}

impl Outcome {
    /// The stories of the first of them, each with its rule.
    pub fn stories(&self, count: usize) -> String {
        let told = self.violations.iter().take(count).map(|violation| {
            format!("{violation}\n{}", check::story(&self.evidence, &violation.about))
        });
        told.collect::<Vec<_>>().join("\n")
    }
}

/// Runs one, and says on standard error how it goes.
pub async fn run(options: &Options) -> Outcome {
    let began = Instant::now();
    let plan = schedule::draw(options.seed, millis(options.length), &options.cast());
    let redis = if options.redis { "with" } else { "without" };
    let restores = if options.restores { "with" } else { "without" };
    eprintln!(
        "seed {}, {redis} Redis, {restores} restores: {} faults in {:?}",
        options.seed,
        plan.len(),
        options.length
    );
    for planned in &plan {
        eprintln!("  {planned}");
    }
    let stage = Stage::start(options).await;
    let mut watchers = stage::watch(&stage);
    let mut clients = clients::start(&stage, options);
    eprintln!("the cluster is up after {:.1} s", began.elapsed().as_secs_f64());

    let mut person = JoinSet::new();
    if options.restores {
        person.spawn(person::answer(Arc::clone(&stage)));
    }
    inflict::all(&stage, &plan, options.length).await;
    stage.calm().await;
    let calm = Instant::now();
    eprintln!("faults are over after {:.1} s", began.elapsed().as_secs_f64());
    stage.close();
    settle(&stage, &mut clients, options.settle()).await;
    person.shutdown().await;
    eprintln!("settled {:.1} s later", calm.elapsed().as_secs_f64());

    let mut evidence = stage.gather().await;
    evidence.only_lies = plan.iter().all(|planned| matches!(planned.fault, Fault::Liar(..)));
    watchers.shutdown().await;
    let violations = check::check(&evidence);
    let coverage = Coverage::of(&evidence);
    let figures = Figures::of(&stage, &evidence, &coverage, options, began.elapsed());
    Outcome { evidence, violations, coverage, figures }
}

/// How long a person may take in the end for all that waits for its word.
const PERSON: Duration = Duration::from_secs(600);

/// Waits until the clients have had their last word and nothing is open, or the time is over. The time of
/// what waits for a person's word begins when the person has nothing left to say.
async fn settle(stage: &Stage, clients: &mut JoinSet<()>, patience: Duration) {
    let latest = tokio::time::Instant::now() + PERSON;
    let mut deadline = tokio::time::Instant::now() + patience;
    let last_words = async { while clients.join_next().await.is_some() {} };
    if tokio::time::timeout_at(deadline, last_words).await.is_err() {
        eprintln!("some clients did not get their last word");
        clients.shutdown().await;
    }
    let mut calm = 0;
    while calm < 4 && tokio::time::Instant::now() < deadline {
        let open = stage.witness.open().await;
        if stage.diary.unsaid.load(Ordering::Acquire) > 0 {
            deadline = latest.min(tokio::time::Instant::now() + patience);
        }
        calm = if open == Ok(0) { calm + 1 } else { 0 };
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
