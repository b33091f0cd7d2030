//! PostgreSQL, Redis, anvil, the nodes, and who watches them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use testkit::{Anvil, AnvilOptions, Signal};
use tokio::task::JoinSet;

use super::chain::{BLOCK_SECONDS, Chain};
use super::database::{Database, Moved};
use super::diary::{Diary, now};
use super::manners::Manners;
use super::node::{FENCED, HAND_OVERS, Node, REALIGNED, Servers, TAKEOVERS};
use super::redis::SharedRedis;
use super::sources::Sources;
use super::witness::Witness;
use super::{LANES, Options};
use crate::evidence::{Evidence, Sent};
use crate::hostile::Trap;

/// Blocks before anything happens, so that every reorganisation has something to replace.
const FIRST_BLOCKS: u64 = 20;

/// All that a run stands on.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) database: Database,
    pub(super) redis: Option<SharedRedis>,
    /// Where a hostile Redis says that nodes are.
    pub(super) trap: Trap,
    pub(super) chain: Chain,
    pub(super) nodes: Vec<Arc<Node>>,
    pub(super) manners: Arc<Manners>,
    pub(super) witness: Arc<Witness>,
    pub(super) diary: Arc<Diary>,
    /// The addresses of the lanes' accounts, in lower case.
    pub(super) lanes: Vec<String>,
    /// Signed bytes of callers who send by themselves, and their hashes: sent until they are mined.
    pub(super) kept: std::sync::Mutex<Vec<(String, String)>>,
    /// Lanes on which a transaction is to come that nobody can estimate.
    pub(super) hard_to_estimate: std::sync::Mutex<Vec<usize>>,
    /// Written while the database goes back to what it was, and read by whoever must speak in one history.
    pub(super) history: tokio::sync::RwLock<()>,
    /// Whose turn it is to lose commits.
    pub(super) turn: tokio::sync::Mutex<()>,
    /// Amounts that nobody has carried yet.
    amounts: AtomicU64,
    over: AtomicBool,
    /// Declared last: it goes when everybody else has.
    _anvil: Anvil,
}

impl Stage {
    /// Puts everything up and waits until it serves.
    pub(super) async fn start(options: &Options) -> Arc<Self> {
        let chain_options = AnvilOptions {
            block_time_seconds: Some(BLOCK_SECONDS),
            arguments: vec!["--order=fifo".to_owned()],
            ..AnvilOptions::default()
        };
        let redis = async { if options.redis { Some(SharedRedis::start().await) } else { None } };
        let (database, redis, anvil) =
            tokio::join!(Database::start(!options.restores), redis, Anvil::start(chain_options));
        anvil.mine(FIRST_BLOCKS).await;
        let witness = Arc::new(Witness::new(&database.url));
        let diary = Arc::new(Diary::default());
        let manners = Arc::new(Manners::default());
        let servers = Servers {
            database_url: &database.url,
            redis: redis.as_ref().map(|redis| redis.address),
            chain_url: anvil.url(),
        };
        let mut nodes = Vec::new();
        for number in 0..options.nodes {
            let node = Node::new(number, options, &servers, LANES).await;
            keep_wire_log(&node, &witness, &diary);
            for (endpoint, proxy) in node.endpoints.iter().enumerate() {
                manners.teach(number, endpoint, proxy);
            }
            // One after the other, as the first one makes the tables.
            node.start();
            node.is_ready().await;
            nodes.push(Arc::new(node));
        }
        let lanes = anvil.accounts().await.into_iter().take(LANES);
        Arc::new(Self {
            database,
            redis,
            trap: Trap::start().await,
            chain: Chain::new(anvil.url()),
            nodes,
            manners,
            witness,
            diary,
            lanes: lanes.map(|address| address.to_lowercase()).collect(),
            kept: std::sync::Mutex::default(),
            hard_to_estimate: std::sync::Mutex::default(),
            history: tokio::sync::RwLock::default(),
            turn: tokio::sync::Mutex::default(),
            amounts: AtomicU64::new(1_000_001),
            over: AtomicBool::new(false),
            _anvil: anvil,
        })
    }

    /// An amount that nobody has carried yet: by it a transaction is known on the chain.
    pub(super) fn amount(&self) -> u64 {
        self.amounts.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether clients are to begin nothing new.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Tells clients to begin nothing new.
    pub(super) fn close(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// The database is somewhere else: first the witness is led there, so that it is never behind
    /// what a node has been told.
    pub(super) fn lead(&self, moved: &Moved) {
        self.witness.point_to(moved.url.clone());
        for node in &self.nodes {
            node.store.point_to(moved.address);
        }
    }

    /// Redis is somewhere else.
    pub(super) fn lead_to_redis(&self, address: SocketAddr) {
        for redis in self.nodes.iter().filter_map(|node| node.redis.as_ref()) {
            redis.point_to(address);
        }
    }

    /// Ends whatever is still wrong.
    pub(super) async fn calm(&self) {
        for node in &self.nodes {
            node.signal(Signal::Cont);
            node.store.heal().await;
            if let Some(redis) = &node.redis {
                redis.heal().await;
            }
            for endpoint in &node.endpoints {
                endpoint.heal().await;
            }
        }
        self.manners.calm();
        // A chain that does not answer goes on by itself: nothing has stopped it then.
        let _ = self.chain.make_blocks(true).await;
        self.fund_all().await;
    }

    /// Gives every account what it had. A reorganisation brings old balances back.
    pub(super) async fn fund_all(&self) {
        for lane in &self.lanes {
            // A chain that does not answer now is funded at the next occasion.
            let _ = self.chain.fund(lane, true).await;
        }
    }

    /// All that the checker looks at.
    pub(super) async fn gather(&self) -> Evidence {
        for node in &self.nodes {
            node.read_metrics().await;
            node.keep_running_log();
        }
        // Before the store is read: what is sent meanwhile is not in what was read.
        let wire = self.diary.wire.lock().unwrap().clone();
        let mut evidence = Evidence { wire, ..Evidence::default() };
        self.witness.dump(&mut evidence).await.expect("read the store");
        evidence.chain = self.chain.blocks().await.expect("read the chain");
        evidence.calls = self.diary.calls.lock().unwrap().clone();
        evidence.own = self.diary.own.lock().unwrap().clone();
        evidence.samples = self.diary.samples.lock().unwrap().clone();
        evidence.reorgs = self.diary.reorgs.lock().unwrap().clone();
        evidence.fenced_rejects = self.counted(FENCED);
        evidence.restores = self.diary.restores.lock().unwrap().clone();
        let lost = std::mem::take(&mut *self.diary.lost.lock().unwrap());
        (evidence.lost_txs, evidence.lost_attempts) = (lost.txs, lost.attempts);
        evidence.made_up = self.diary.made_up.lock().unwrap().clone();
        evidence.astray = self.trap.caught();
        evidence.lies = self.diary.lies.lock().unwrap().clone();
        evidence.closed = self.diary.closed.lock().unwrap().clone();
        evidence
    }

    fn counted(&self, name: &str) -> u64 {
        self.nodes.iter().map(|node| node.counted(name)).sum::<f64>() as u64
    }

    /// How often a lane changed hands, as the nodes count it.
    pub(super) fn takeovers(&self) -> u64 {
        self.counted(TAKEOVERS)
    }

    /// How often a lane was handed to the node that it had best be on.
    pub(super) fn hand_overs(&self) -> u64 {
        self.counted(HAND_OVERS)
    }

    /// How often a lane was compared with the chain after a failover.
    pub(super) fn realigned(&self) -> u64 {
        self.counted(REALIGNED)
    }

    /// Whom nodes learned of each other from; `None` where there is no Redis.
    pub(super) fn sources(&self) -> Option<Sources> {
        let seen = self.nodes.iter().map(|node| node.sources());
        self.redis.as_ref().map(|_| seen.fold(Sources::default(), Sources::and))
    }

    /// How often a node was started with a wrong clock.
    pub(super) fn skewed(&self) -> u64 {
        self.nodes.iter().map(|node| node.skewed()).sum()
    }
}

/// Looks up all bytes that a node sends, before they are passed on.
fn keep_wire_log(node: &Node, witness: &Arc<Witness>, diary: &Arc<Diary>) {
    for (place, endpoint) in node.endpoints.iter().enumerate() {
        let name = format!("n{}/{place}", node.number);
        let (witness, diary) = (Arc::clone(witness), Arc::clone(diary));
        endpoint.before_send(move |hash| {
            let (name, witness, diary) = (name.clone(), Arc::clone(&witness), Arc::clone(&diary));
            let at = now();
            async move {
                let record = witness.on_record(hash.as_slice()).await;
                diary.wire(Sent { at, endpoint: name, hash: hash.to_string(), record });
            }
        });
    }
}

/// Who looks on all the time: at tokens, at counters, at processes that ended, and at what callers
/// have sent by themselves.
pub(super) fn watch(stage: &Arc<Stage>) -> JoinSet<()> {
    let mut watchers = JoinSet::new();
    watchers.spawn(watch_tokens(Arc::clone(stage)));
    watchers.spawn(send_until_mined(Arc::clone(stage)));
    for node in &stage.nodes {
        watchers.spawn(watch_node(Arc::clone(node)));
    }
    watchers
}

async fn watch_tokens(stage: Arc<Stage>) {
    loop {
        for sample in stage.witness.tokens().await.unwrap_or_default() {
            stage.diary.sample(sample);
        }
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
}

async fn watch_node(node: Arc<Node>) {
    loop {
        node.supervise();
        node.read_metrics().await;
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
}

/// Whoever sends by itself has to see to it that its transaction is not forgotten.
async fn send_until_mined(stage: Arc<Stage>) {
    loop {
        let kept = stage.kept.lock().unwrap().clone();
        // All of them: the oldest may be the one that all others of its account wait for.
        for (raw, hash) in &kept {
            if !stage.chain.is_mined(hash).await {
                // Refused, it is tried again.
                let _ = stage.chain.send(raw).await;
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
