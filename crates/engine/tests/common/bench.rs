//! A database, a mode, and the nodes started on them.

use std::sync::Arc;
use std::time::Duration;

use stile_chain::{BlockTag, NonceSource};
use stile_domain::{Address, ChainId, Hold, Lane, LeaseTerms};
use stile_engine::{ChainQuery, Mode, Node, NonceError, QueueSettings, RejectPolicy, Settings};
use stile_store::{AllocationKey, Store};
use testkit::eventually;

use super::{Chain, Database, Spy};

/// The lane of tests that need one.
pub(crate) const LANE: u32 = 1;

/// Two workers, and room for every call a test makes.
pub(crate) const QUEUE: Mode = queue(2, 4096, RejectPolicy::FailFast);

pub(crate) const fn queue(workers: usize, capacity: usize, reject: RejectPolicy) -> Mode {
    Mode::WorkerQueue(QueueSettings { workers, capacity, reject })
}

/// A lane of its own for each number.
pub(crate) fn lane(number: u32) -> Lane {
    let mut address = [0xab; 20];
    address[16..].copy_from_slice(&number.to_be_bytes());
    Lane::new(ChainId::new(31337).expect("in range"), Address::from(address))
}

/// The first lanes that share a worker with lane 1, itself included.
pub(crate) fn lanes_of_one_worker(workers: usize) -> impl Iterator<Item = Lane> {
    let worker = lane(LANE).worker(workers);
    (LANE..).map(lane).filter(move |lane| lane.worker(workers) == worker)
}

pub(crate) fn key(tenant: &str, key: &str) -> AllocationKey {
    AllocationKey { tenant: tenant.into(), key: key.into() }
}

/// A database with its schema, and how nodes on it work.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) database: Database,
    pub(crate) mode: Mode,
    /// The test's own handle, to see what there is.
    pub(crate) store: Arc<dyn Store>,
}

impl Bench {
    pub(crate) async fn postgres(mode: Mode) -> Self {
        Self::new(Database::postgres().await, mode).await
    }

    pub(crate) async fn sqlite(mode: Mode) -> Self {
        Self::new(Database::sqlite(), mode).await
    }

    async fn new(database: Database, mode: Mode) -> Self {
        let store = database.open();
        store.migrate().await.expect("migrate");
        Self { database, mode, store }
    }

    /// Settings under which nothing runs out or moves by itself and no chain is asked.
    pub(crate) fn settings(&self, node: &str) -> Settings {
        Settings {
            mode: self.mode,
            url: Some(format!("http://{node}:7420")),
            moves_lanes: false,
            ..Settings::new(node)
        }
    }

    /// The same with short holds: they run out after a second and are looked through four times
    /// in it; the chain is asked about silent ones all the time.
    pub(crate) fn impatient(&self, node: &str) -> Settings {
        Settings {
            hold_timeout: Duration::from_secs(1),
            state_timeout: Duration::ZERO,
            chain_query: ChainQuery::Enabled(BlockTag::Latest),
            ..self.settings(node)
        }
    }

    /// A node that asks no chain, on a handle of its own.
    pub(crate) async fn start(&self, node: &str) -> Node {
        self.start_with(self.settings(node), Arc::new(Chain::default())).await
    }

    pub(crate) async fn start_with(&self, settings: Settings, chain: Arc<dyn NonceSource>) -> Node {
        start(settings, self.database.open(), chain).await
    }

    /// A node that asks no chain, and what stands between it and its store.
    pub(crate) async fn start_spied(&self, settings: Settings) -> (Node, Arc<Spy>) {
        let spy = Spy::on(self.database.open());
        let node = start(settings, Arc::clone(&spy) as _, Arc::new(Chain::default())).await;
        (node, spy)
    }
}

async fn start(settings: Settings, store: Arc<dyn Store>, chain: Arc<dyn NonceSource>) -> Node {
    Node::start(settings, store, chain).await.expect("the node starts")
}

/// The first answer after the database was away. Connections that broke while nobody looked are
/// only noticed when they are used, so it may take a few calls.
pub(crate) async fn once_reachable(node: &Node, lane: Lane) -> Result<Hold, NonceError> {
    eventually("the database to be found again", async || {
        match node.nonces().allocate(lane).await {
            Err(NonceError::StoreUnavailable(_)) => None,
            answer => Some(answer),
        }
    })
    .await
}

/// A lease of so many milliseconds, renewed well within it.
pub(crate) fn lease(duration_ms: u64) -> LeaseTerms {
    let duration = Duration::from_millis(duration_ms);
    LeaseTerms::new(duration, duration / 4).expect("renewed in time")
}

/// A lease that nobody renews in the background: it runs out unless the lane is worked.
pub(crate) fn lease_without_renewal(duration_ms: u64) -> LeaseTerms {
    let hour = Duration::from_secs(3600);
    LeaseTerms { duration: Duration::from_millis(duration_ms), renew_interval: hour }
}
