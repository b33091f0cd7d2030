//! What nodes say of themselves, as it is read.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use stile_registry::{
    Health, Heartbeat, NodeId, PoolId, Registration, ResourceReport, Services, Status,
};
use utoipa::ToSchema;

use crate::problem::Problem;
use crate::schema;

/// Numbers above this are not the same in every programming language.
pub(crate) const HIGHEST_VERSION: u64 = (1 << 53) - 1;

/// What a caller may give, so that there is room for those that come after it.
pub(crate) const HIGHEST_GIVEN: u64 = 9_000_000_000_000_000;

/// No share is above this, whatever it is a share of.
const HIGHEST_USAGE: f64 = 1e9;

/// A node, as it registers. What is left out has its default.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = NodeRegistration, example = json!({
    "pools": ["speech"],
    "services": { "asr": ["zh", "en"], "tts": ["zh"] },
    "resources": { "maxConcurrency": 10, "cpuUsage": 0.2, "memoryUsage": 0.4 },
}))]
pub(crate) struct NodeBody {
    /// Its name; the path's, if it is in the path.
    #[schema(value_type = Option<schema::NodeName>)]
    pub(super) id: Option<NodeId>,
    /// Which start of the node this is. Left out, it is a new one: a number above all before. To
    /// change what was said, send the number that was answered.
    #[schema(value_type = Option<schema::GivenVersion>)]
    incarnation: Option<u64>,
    /// Whether it wants to be asked; `online` if left out.
    #[schema(value_type = Option<schema::NodeStatus>)]
    status: Option<Status>,
    /// How it is; `Online` if left out.
    #[schema(value_type = Option<schema::NodeHealth>)]
    health: Option<Health>,
    /// The pools it is in.
    #[schema(value_type = Option<Vec<schema::PoolName>>)]
    pools: Option<Vec<PoolId>>,
    /// What it offers.
    #[schema(value_type = Option<schema::ServiceMap>)]
    services: Option<Services>,
    resources: Option<ResourcesBody>,
    /// What is installed on it.
    installed_services: Option<Vec<String>>,
    /// What it can do.
    #[schema(value_type = Option<HashMap<String, Value>>)]
    features: Option<BTreeMap<String, Value>>,
}

/// A sign of life. What is left out stays as it was.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = NodeHeartbeat, example = json!({
    "incarnation": 1_763_251_200_000_u64,
    "resources": { "maxConcurrency": 10, "cpuUsage": 0.5, "memoryUsage": 0.4 },
}))]
pub(crate) struct HeartbeatBody {
    /// Which start of the node speaks, as its registration was answered. One that has been
    /// superseded is refused. Over a connection it may be left out.
    #[schema(value_type = schema::GivenVersion, required)]
    pub(super) incarnation: Option<u64>,
    /// A number of the node's own that rises with each heartbeat, so that one that comes late is
    /// known to be late. Left out, each counts as later than the one before.
    #[schema(value_type = Option<schema::GivenVersion>)]
    sequence: Option<u64>,
    /// Whether it wants to be asked.
    #[schema(value_type = Option<schema::NodeStatus>)]
    status: Option<Status>,
    /// How it is.
    #[schema(value_type = Option<schema::NodeHealth>)]
    health: Option<Health>,
    /// The pools it is in.
    #[schema(value_type = Option<Vec<schema::PoolName>>)]
    pub(super) pools: Option<Vec<PoolId>>,
    /// What it offers.
    #[schema(value_type = Option<schema::ServiceMap>)]
    services: Option<Services>,
    resources: Option<ResourcesBody>,
    /// What is installed on it.
    installed_services: Option<Vec<String>>,
    /// What it can do.
    #[schema(value_type = Option<HashMap<String, Value>>)]
    features: Option<BTreeMap<String, Value>>,
}

/// What a node says of its resources.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[schema(as = NodeResourceReport)]
struct ResourcesBody {
    /// How many jobs it takes at a time; 0 if left out.
    #[schema(value_type = schema::Concurrency, required = false)]
    max_concurrency: u32,
    /// Share of its processors in use.
    #[schema(value_type = schema::Usage, required = false)]
    #[serde(deserialize_with = "usage")]
    cpu_usage: f64,
    /// Share of its graphics processors in use, if it has any.
    #[schema(value_type = Option<schema::Usage>)]
    #[serde(deserialize_with = "optional_usage")]
    gpu_usage: Option<f64>,
    /// Share of its memory in use.
    #[schema(value_type = schema::Usage, required = false)]
    #[serde(deserialize_with = "usage")]
    memory_usage: f64,
    /// Read and not used: how many jobs run is what the registry counts.
    #[schema(value_type = Option<schema::Concurrency>)]
    current_jobs: Option<u32>,
}

fn usage<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let share = f64::deserialize(deserializer)?;
    checked(share).ok_or_else(|| serde::de::Error::custom("must be a share, from 0 to 1"))
}

fn optional_usage<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let Some(share) = Option::<f64>::deserialize(deserializer)? else { return Ok(None) };
    let bad = || serde::de::Error::custom("must be a share, from 0 to 1");
    checked(share).map(Some).ok_or_else(bad)
}

/// Some count in hundredths, so what is above 1 is taken as it is.
fn checked(share: f64) -> Option<f64> {
    (0.0..=HIGHEST_USAGE).contains(&share).then_some(share)
}

impl From<ResourcesBody> for ResourceReport {
    fn from(body: ResourcesBody) -> Self {
        Self {
            max_concurrency: body.max_concurrency,
            cpu_usage: body.cpu_usage,
            gpu_usage: body.gpu_usage,
            memory_usage: body.memory_usage,
            current_jobs: body.current_jobs,
        }
    }
}

/// A version as all programming languages can write it, and the next ones too.
pub(super) fn version(field: &str, number: u64) -> Result<u64, Problem> {
    if number <= HIGHEST_GIVEN {
        return Ok(number);
    }
    Err(Problem::field(field, format!("must be from 0 to {HIGHEST_GIVEN}")))
}

impl NodeBody {
    /// Under this name.
    pub(super) fn registration(self, id: NodeId) -> Result<Registration, Problem> {
        let incarnation = self.incarnation.map(|number| version("incarnation", number));
        Ok(Registration {
            id,
            incarnation: incarnation.transpose()?,
            status: self.status.unwrap_or_default(),
            health: self.health.unwrap_or_default(),
            pools: self.pools.unwrap_or_default(),
            services: self.services.unwrap_or_default(),
            resources: self.resources.unwrap_or_default().into(),
            installed_services: self.installed_services.unwrap_or_default(),
            features: self.features.unwrap_or_default(),
        })
    }
}

impl HeartbeatBody {
    /// Of this start.
    pub(super) fn heartbeat(self, incarnation: u64) -> Result<Heartbeat, Problem> {
        let sequence = self.sequence.map(|number| version("sequence", number));
        Ok(Heartbeat {
            incarnation: version("incarnation", incarnation)?,
            sequence: sequence.transpose()?,
            status: self.status,
            health: self.health,
            pools: self.pools,
            services: self.services,
            resources: self.resources.map(ResourceReport::from),
            installed_services: self.installed_services,
            features: self.features,
        })
    }
}
