//! Starting and stopping all of it.

use std::sync::Arc;
use std::time::Duration;

use stile_chain::NonceSource;
use stile_domain::{Failover, Holder, Incarnation};
use stile_store::{Store, StoreError};
use stile_tasks::{Fall, Tasks};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::care::LaneCare;
use crate::chains::ChainStatus;
use crate::cluster::in_registry::InRegistry;
use crate::cluster::membership::{InStore, Membership};
use crate::cluster::registered;
use crate::cluster::router::Router;
use crate::cluster::{self, Bell, Members, shares};
use crate::component::NonceComponent;
use crate::core::Core;
use crate::dispatch::Dispatch;
use crate::keeper;
use crate::lanes::Lanes;
use crate::orphans::Orphans;
use crate::reconcile;
use crate::restored;
use crate::retention;
use crate::rollout::{self, RolloutView};
use crate::settings::Settings;
use crate::signing::Signing;
use crate::sweeper;
use crate::task;
use crate::tx;
use crate::tx::component::Transactions;
use crate::tx::settings::Managed;

/// How long lanes may take to be handed over.
const LONGEST_DRAIN: Duration = Duration::from_secs(5);

/// How long what is queued may take once a task has panicked.
const FALLEN_GRACE: Duration = Duration::from_secs(2);

/// A running node: the component, and the tasks that keep its lanes.
#[derive(Debug)]
pub struct Node {
    core: Arc<Core>,
    component: NonceComponent,
    transactions: Transactions,
    care: LaneCare,
    router: Router,
}

impl Node {
    /// Starts a node that hands out nonces and sends nothing itself.
    pub async fn start(
        settings: Settings,
        store: Arc<dyn Store>,
        chain: Arc<dyn NonceSource>,
    ) -> Result<Self, StoreError> {
        Self::start_managed(settings, store, chain, Managed::default()).await
    }

    /// Starts a node under a fresh incarnation. The schema must be up to date. Takes the lanes
    /// that an earlier process of the same name left behind.
    pub async fn start_managed(
        mut settings: Settings,
        store: Arc<dyn Store>,
        chain: Arc<dyn NonceSource>,
        managed: Managed,
    ) -> Result<Self, StoreError> {
        store.check_schema().await?;
        let unaligned = store.arrive().await?;
        if !unaligned.is_empty() {
            warn!(
                lanes = unaligned.len(),
                "the database was restored from a copy: nothing is given out on its \
                   lanes before each has been compared with its chain"
            );
        }
        if settings.failover == Failover::Synchronous && store.lacks_synchronous_standby().await? {
            warn!(
                "store.failover says that failovers go to a synchronous standby, and the primary waits for none: \
                 a failover could lose commits unnoticed; set synchronous_standby_names"
            );
        }
        let holder = Holder {
            node: settings.node.clone(),
            incarnation: Incarnation::fresh(),
            url: settings.url.clone(),
        };
        info!(node = %holder.node, incarnation = %holder.incarnation.0, "node starts");
        settings.signs_for.extend(managed.signers.lanes());
        let lanes_of_ours = RolloutView::new(store.rollout().await?);
        let (recorder, inbox) = tx::Recorder::new();
        let window = settings.tx.reorg_window as usize;
        let tracks = tx::Tracks::new(&managed.chains, window, &settings.tx);
        // One missed beat is no death.
        let heard_within = settings.lease.renew_interval * 3;
        let in_store = InStore::new(Arc::clone(&store), heard_within);
        let membership: Arc<dyn Membership> = match (managed.membership, managed.registry) {
            (Some(membership), _) => membership,
            (None, Some(registry)) => {
                let chains = managed.chains.iter().map(|pool| pool.chain());
                let services = registered::services(chains, !managed.signers.is_empty());
                Arc::new(InRegistry::new(registry, in_store, services, heard_within))
            }
            (None, None) => Arc::new(in_store),
        };
        let stopping = CancellationToken::new();
        let fall = Fall::new(stopping.clone());
        let core = Arc::new(Core {
            membership,
            members: Members::new(settings.moves_lanes),
            bell: Bell::default(),
            rollout: lanes_of_ours,
            signing: Signing::default(),
            signers: managed.signers,
            tracks,
            recorder,
            producers: Tasks::new(fall.clone()),
            events: watch::Sender::new(0),
            store,
            chain,
            settings,
            holder,
            lanes: Lanes::default(),
            orphans: Orphans::default(),
            tasks: Tasks::new(fall),
            stopping,
        });
        cluster::join(&core).await?;
        shares::start(&core, managed.calls);
        tx::start(&core, inbox);
        keeper::take_own(&core).await?;
        let dispatch = Arc::new(Dispatch::start(&core));
        core.tasks.spawn(task::RENEW, keeper::renew_leases(Arc::clone(&core)));
        core.tasks.spawn(task::KEEP, keeper::run(Arc::clone(&core)));
        core.tasks.spawn(task::CLUSTER, cluster::run(Arc::clone(&core)));
        core.tasks.spawn(task::HEAR, cluster::hear(Arc::clone(&core)));
        core.tasks.spawn(task::ROLLOUT, rollout::run(Arc::clone(&core)));
        sweeper::start(&core);
        core.tasks.spawn(task::RETENTION, retention::run(Arc::clone(&core)));
        reconcile::start(&core);
        core.tasks.spawn(task::RESTORED, restored::run(Arc::clone(&core)));
        let component = NonceComponent::new(Arc::clone(&core), Arc::clone(&dispatch));
        let transactions = Transactions::new(Arc::clone(&core), dispatch);
        let care = LaneCare::new(Arc::clone(&core));
        let router = Router::new(Arc::clone(&core));
        Ok(Self { core, component, transactions, care, router })
    }

    /// The component that this node serves.
    pub fn nonces(&self) -> &NonceComponent {
        &self.component
    }

    /// The managed transactions of this node.
    pub fn transactions(&self) -> &Transactions {
        &self.transactions
    }

    /// Why lanes do not move, and mending them.
    pub fn lanes(&self) -> &LaneCare {
        &self.care
    }

    /// The node's name.
    pub fn id(&self) -> &stile_domain::NodeId {
        &self.core.holder.node
    }

    /// The chains that this node follows, as it sees them.
    pub fn chains(&self) -> Vec<ChainStatus> {
        self.core.chains()
    }

    /// Where lanes are.
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// The store, for what is not the engine's business: API keys.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.core.store
    }

    /// Whether one of its tasks has panicked: then it has stopped, and is to be shut down. What it held
    /// is taken over by other nodes, or by its next start.
    pub fn fall(&self) -> &Fall {
        self.core.tasks.fall()
    }

    /// Whether the database answers.
    pub async fn ready(&self) -> Result<(), StoreError> {
        self.core.store.ping().await
    }

    /// Hands all lanes to the nodes that they had best be on once this one is gone, while calls are
    /// still taken: they go to the new holders. To be called before calls are no longer taken,
    /// where there are other nodes; for a few seconds at most.
    pub async fn drain(&self) {
        let handing_over = cluster::hand_over_all(&self.core);
        if tokio::time::timeout(LONGEST_DRAIN, handing_over).await.is_err() {
            warn!("not all lanes could be handed over; the rest is given back at the end");
        }
    }

    /// Takes no more calls, finishes what is queued (for `shutdown_grace` at most), gives the
    /// leases back and closes the store. Answers with the number of tasks that were cut short.
    pub async fn shutdown(&self) -> usize {
        self.core.stopping.cancel();
        self.core.producers.close();
        self.core.tasks.close();
        // What waits for a task that has panicked waits in vain.
        let is_whole = self.fall().fallen().is_none();
        let grace = self.core.settings.shutdown_grace;
        let grace = if is_whole { grace } else { grace.min(FALLEN_GRACE) };
        if tokio::time::timeout(grace, self.core.tasks.wait()).await.is_err() {
            warn!(
                tasks = self.core.tasks.len(),
                ?grace,
                "shutdown: not everything was finished in time"
            );
        }
        let cut_short = self.core.tasks.len();
        self.core.release_orphans().await;
        let limit = Duration::from_secs(5);
        if tokio::time::timeout(limit, keeper::release_all(&self.core)).await.is_err() {
            warn!("shutdown: the database does not answer; the leases run out by themselves");
        }
        let _ = tokio::time::timeout(limit, cluster::leave(&self.core)).await;
        self.core.store.close().await;
        cut_short
    }
}

impl Drop for Node {
    /// A node that is dropped without a shutdown stops renewing: its leases run out.
    fn drop(&mut self) {
        self.core.stopping.cancel();
        self.core.producers.close();
    }
}
