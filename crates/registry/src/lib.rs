//! A lock-free node registry and dispatcher, on Redis or in one process.
//!
//! Nodes say what they are, what they offer and that they live. Instances of the registry, one in each
//! scheduler, read that from their own memory, choose nodes for jobs and take slots of them, and no
//! slot is given out twice.
//!
//! ```text
//!  register, heartbeat ──→ script ──→ Redis ──→ tells who listens ─┐
//!                            │                                     ▼
//!                            └──→ this instance's memory      the others' memory
//!                                                                  │  checks versions behind answers
//!  get_node, select ─────────────── memory only, on a hit ─────────┘
//!  dispatch ──→ select ──→ reserve (script) ──→ run ──→ complete (script)
//! ```
//!
//! | file | what it is for |
//! |---|---|
//! | `node`, `report`, `requirement`, `job`, `name` | the words |
//! | `read`, `flight`, `cache/` | reading: memory first, one question for everybody who asks the same |
//! | `members` | who is in a pool |
//! | `select`, `capability` | who could do a job |
//! | `dispatch`, `session`, `rendezvous` | a slot for it |
//! | `write`, `keep` | what nodes say |
//! | `config` | configurations under versions |
//! | `mode`, `monitor`, `background` | what happens while Redis is away, and behind the answers |
//! | `backend/redis/lua/` | the protocol: every script touches one hash slot |
//! | `backend/local` | the same rules in one process |
//!
//! # Why reads take no lock
//!
//! Names lead to slots through a `papaya` map, whose reads are lock-free: a reader pins an epoch, follows
//! pointers that writers replace by compare-and-swap, and never waits for a writer, not even while the
//! table grows. A slot holds its node behind an `arc-swap`: a load takes a debt slot of the reader's own
//! thread and at most one reference count. Ages and loads are atomics beside it. Lists of members are
//! immutable vectors of pointers to slots, swapped as a whole. So whoever reads what is there does a
//! bounded number of loads and no I/O; what is not fresh is left as a note in a queue, and a task
//! behind it asks Redis for everything noted together. Locks are only taken where memory has no answer
//! and Redis has to be asked anyway.
//!
//! # What is true of versions
//!
//! A node's version is `(incarnation, sequence)`. Scripts accept only what is later than what is known;
//! a removed node leaves its version behind for [`Settings::tombstone_ttl`], so a word of its that comes
//! late is refused; and no instance ever replaces what it shows by something earlier, whatever Redis has
//! forgotten. A Redis that knows less than its caller has lost something, perhaps slots: it gives out
//! none on that node until everything that may have been lost has run out; nor does one that has taken
//! over from the server by which they were given out.
//!
//! Most heartbeats say nothing new but how much of the node is in use. They change no version and need no
//! script: each start of a node has a key of its own, which is there while that start is the latest and
//! lives, and such a heartbeat overwrites it only if it is there. So it can bring nobody back.
//!
//! # An example
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use stile_registry::{
//!     Heartbeat, JobRequest, NodeId, PoolId, Query, Registration, Registry, Requirement, Settings,
//! };
//!
//! // Or `Registry::connect("redis://127.0.0.1:6379", Settings::default()).await?`.
//! let registry = Registry::in_process(Settings::default())?;
//!
//! // A node with speech services registers.
//! let id = NodeId::new("node-12345")?;
//! let mut node = Registration::new(id.clone(), 10);
//! node.pools = vec![PoolId::new("1")?, PoolId::new("2")?];
//! node.services = serde_json::from_str(
//!     r#"{ "asr": ["zh", "en"], "nmt": ["zh", "en"], "tts": ["zh", "en"] }"#,
//! )?;
//! let registered = registry.register(&node).await?;
//!
//! // Anybody reads it.
//! let node = registry.get_node(&id).await?.expect("it lives");
//! assert_eq!(node.resources.max_concurrency, 10);
//!
//! // Anybody looks for nodes that could do something.
//! let services = Requirement::list("asr:zh,nmt,tts:en")?;
//! let query =
//!     Query { pool: Some(PoolId::new("1")?), services: services.clone(), limit: None };
//! let selection = registry.select(&query).await?;
//! assert_eq!(selection.nodes[0].id, id);
//!
//! // A job gets a slot; the node's next heartbeat shows it.
//! let request = JobRequest { session: "session-7".into(), services, pool: None };
//! let job = registry.dispatch(&request).await?;
//! let node = registry.heartbeat(&id, &Heartbeat::of(registered.incarnation)).await?;
//! assert_eq!(node.resources.current_jobs, 1);
//!
//! // The job is done, and its slot is free.
//! registry.complete(&job.job_id).await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! Deliberately absent: anything of Stile. Services are open strings, and the crate knows neither lanes
//! nor chains.

#![warn(missing_docs)]

mod backend;
mod background;
mod cache;
mod capability;
mod clock;
mod config;
mod dispatch;
mod error;
mod flight;
mod job;
mod keep;
mod members;
pub mod metrics;
mod mode;
mod monitor;
mod name;
mod node;
mod read;
mod registry;
mod rendezvous;
mod report;
mod requirement;
mod select;
mod session;
mod settings;
mod write;

pub use config::{Config, ConfigWatch};
pub use dispatch::Reservation;
pub use error::RegistryError;
pub use job::{InvalidJobId, Job, JobId, JobRequest};
pub use keep::Kept;
pub use mode::Mode;
pub use name::{ConfigName, InvalidName, NodeId, PoolId, ServiceName};
pub use node::{Capacity, Health, Node, Resources, Services, Status, Version};
pub use registry::{ConnectError, Registry};
pub use report::{Heartbeat, Registration, ResourceReport};
pub use requirement::Requirement;
pub use select::{LeftOut, Query, Selection};
pub use settings::{InvalidSettings, Invalidation, Settings};
