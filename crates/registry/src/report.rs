//! What nodes say of themselves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Health, Node, NodeId, PoolId, Resources, Services, Status};

/// What a node says of its resources.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ResourceReport {
    /// How many jobs it takes at a time.
    pub max_concurrency: u32,
    /// Share of its processors in use, 0 to 1.
    pub cpu_usage: f64,
    /// Share of its graphics processors in use, if it has any.
    pub gpu_usage: Option<f64>,
    /// Share of its memory in use, 0 to 1.
    pub memory_usage: f64,
    /// Read and not used: how many jobs run is what the capacity record says.
    #[serde(skip_serializing)]
    pub current_jobs: Option<u32>,
}

impl ResourceReport {
    /// What the node has, with the jobs that the capacity record shows.
    pub(crate) fn with_jobs(self, current_jobs: u32) -> Resources {
        Resources {
            max_concurrency: self.max_concurrency,
            current_jobs,
            cpu_usage: self.cpu_usage,
            gpu_usage: self.gpu_usage,
            memory_usage: self.memory_usage,
        }
    }
}

/// Shares in use: what changes from one heartbeat to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Usage {
    pub(crate) cpu: f64,
    pub(crate) gpu: Option<f64>,
    pub(crate) memory: f64,
}

impl Usage {
    pub(crate) fn said(report: &ResourceReport) -> Self {
        Self { cpu: report.cpu_usage, gpu: report.gpu_usage, memory: report.memory_usage }
    }

    pub(crate) fn of(resources: &Resources) -> Self {
        Self { cpu: resources.cpu_usage, gpu: resources.gpu_usage, memory: resources.memory_usage }
    }

    pub(crate) fn apply(self, resources: &mut Resources) {
        resources.cpu_usage = self.cpu;
        resources.gpu_usage = self.gpu;
        resources.memory_usage = self.memory;
    }
}

/// A node that begins, or begins again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Registration {
    /// Its name.
    pub id: NodeId,
    /// Which start of the node this is. Left out, it is a new one: a number above every earlier
    /// one, taken from the clock of Redis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<u64>,
    /// Whether it wants to be asked.
    #[serde(default)]
    pub status: Status,
    /// How it is.
    #[serde(default)]
    pub health: Health,
    /// The pools it is in.
    #[serde(default)]
    pub pools: Vec<PoolId>,
    /// What it offers.
    #[serde(default)]
    pub services: Services,
    /// What it has.
    #[serde(default)]
    pub resources: ResourceReport,
    /// What is installed on it.
    #[serde(default)]
    pub installed_services: Vec<String>,
    /// What it can do.
    #[serde(default)]
    pub features: BTreeMap<String, Value>,
}

impl Registration {
    /// A node that says nothing of itself but how many jobs it takes at a time.
    pub fn new(id: NodeId, max_concurrency: u32) -> Self {
        Self {
            id,
            incarnation: None,
            status: Status::default(),
            health: Health::default(),
            pools: Vec::new(),
            services: Services::new(),
            resources: ResourceReport { max_concurrency, ..ResourceReport::default() },
            installed_services: Vec::new(),
            features: BTreeMap::new(),
        }
    }
}

/// A sign of life. What is left out stays as it was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Heartbeat {
    /// Which start of the node speaks; one that has been superseded is refused.
    pub incarnation: u64,
    /// A number of the node's own that rises with each heartbeat, so that one that comes late is
    /// known to be late. Left out, each counts as later than the one before, and the version only
    /// changes if it says something new of the node beside what is in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// Whether it wants to be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// How it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// The pools it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pools: Option<Vec<PoolId>>,
    /// What it offers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub services: Option<Services>,
    /// What it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceReport>,
    /// What is installed on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub installed_services: Option<Vec<String>>,
    /// What it can do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<BTreeMap<String, Value>>,
}

impl Heartbeat {
    /// A sign of life and nothing else.
    pub fn of(incarnation: u64) -> Self {
        Self { incarnation, ..Self::default() }
    }

    /// Whether it changes the node's version: it says more than that the node lives and how much of
    /// it is in use.
    pub(crate) fn is_news(&self, known: &Node) -> bool {
        fn differs<T: PartialEq>(said: Option<&T>, known: &T) -> bool {
            said.is_some_and(|said| said != known)
        }
        let max = self.resources.map(|report| report.max_concurrency);
        self.sequence.is_some()
            || differs(max.as_ref(), &known.resources.max_concurrency)
            || differs(self.status.as_ref(), &known.status)
            || differs(self.health.as_ref(), &known.health)
            || differs(self.pools.as_ref(), &known.pools)
            || differs(self.services.as_ref(), &known.services)
            || differs(self.installed_services.as_ref(), &known.installed_services)
            || differs(self.features.as_ref(), &known.features)
    }

    /// Changes a node to what has been said of it.
    pub(crate) fn apply(&self, node: &mut Node, running: u32) {
        fn take<T: Clone>(said: Option<&T>, place: &mut T) {
            if let Some(said) = said {
                place.clone_from(said);
            }
        }
        take(self.status.as_ref(), &mut node.status);
        take(self.health.as_ref(), &mut node.health);
        take(self.pools.as_ref(), &mut node.pools);
        take(self.services.as_ref(), &mut node.services);
        take(self.installed_services.as_ref(), &mut node.installed_services);
        take(self.features.as_ref(), &mut node.features);
        node.resources.current_jobs = running;
        if let Some(report) = self.resources {
            node.resources = report.with_jobs(running);
        }
    }
}
