//! What is answered, for the OpenAPI document: the registry's own types are what is written.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use stile_registry::Node;
use utoipa::ToSchema;

use crate::schema;

/// A node as of its last heartbeat.
#[derive(ToSchema)]
#[schema(as = Node)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "for the document alone")]
pub(crate) struct NodeView {
    /// Its name.
    #[schema(value_type = schema::NodeName)]
    id: (),
    /// Which start of it: rises with each.
    #[schema(value_type = schema::VersionNumber)]
    incarnation: (),
    /// Which write of that start.
    #[schema(value_type = schema::VersionNumber)]
    sequence: (),
    /// Whether it wants to be asked.
    #[schema(value_type = schema::NodeStatus)]
    status: (),
    /// How it says it is.
    #[schema(value_type = schema::NodeHealth)]
    health: (),
    /// The pools it is in.
    #[schema(value_type = Vec<schema::PoolName>)]
    pools: (),
    /// What it offers.
    #[schema(value_type = schema::ServiceMap)]
    services: (),
    resources: ResourcesView,
    /// What is installed on it, in its own words.
    installed_services: Vec<String>,
    /// What it can do, in its own words.
    features: HashMap<String, Value>,
    /// When it was last heard of: milliseconds since 1970 by the registry's clock.
    #[schema(value_type = schema::VersionNumber)]
    last_heartbeat_ms: (),
}

/// What a node has and how much of it is in use.
#[derive(ToSchema)]
#[schema(as = NodeResources)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "for the document alone")]
struct ResourcesView {
    /// How many jobs it takes at a time.
    #[schema(value_type = schema::Concurrency)]
    max_concurrency: (),
    /// How many ran at its last heartbeat, by the registry's count.
    #[schema(value_type = schema::Concurrency)]
    current_jobs: (),
    /// Share of its processors in use.
    #[schema(value_type = schema::Usage)]
    cpu_usage: (),
    /// Share of its graphics processors in use, if it has any.
    #[schema(value_type = Option<schema::Usage>)]
    gpu_usage: (),
    /// Share of its memory in use.
    #[schema(value_type = schema::Usage)]
    memory_usage: (),
}

/// A page of nodes.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NodeList {
    #[schema(value_type = Vec<NodeView>)]
    pub(super) items: Vec<Arc<Node>>,
    /// The cursor of the next page, if there is one.
    #[schema(value_type = Option<schema::NodeName>)]
    pub(super) next: Option<String>,
}

impl NodeList {
    /// A page of nodes that come by name.
    pub(super) fn page(nodes: Vec<Arc<Node>>, after: Option<&str>, limit: usize) -> Self {
        let rest = nodes.into_iter().filter(|node| after.is_none_or(|it| node.id.as_str() > it));
        let mut items: Vec<Arc<Node>> = rest.take(limit + 1).collect();
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).map(|node| node.id.to_string());
        Self { items, next }
    }
}

/// A job that a node has been found for.
#[derive(ToSchema)]
#[schema(as = Job)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "for the document alone")]
pub(crate) struct JobView {
    /// To complete it with.
    #[schema(value_type = schema::JobName)]
    job_id: (),
    /// Whose job it is.
    #[schema(value_type = schema::SessionName)]
    session: (),
    /// The pool that the session is in.
    #[schema(value_type = schema::PoolName)]
    pool: (),
    /// The node whose slot it has.
    #[schema(value_type = schema::NodeName)]
    node_id: (),
    /// What was asked for.
    #[schema(value_type = Vec<schema::Requirement>)]
    services: (),
    /// When the slot is free again if nobody completes the job: milliseconds since 1970.
    #[schema(value_type = schema::VersionNumber)]
    expires_at: (),
}

/// A configuration.
#[derive(ToSchema)]
#[schema(as = RegistryConfig)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "for the document alone")]
pub(crate) struct ConfigView {
    /// Its name.
    #[schema(value_type = schema::ConfigurationName)]
    name: (),
    /// What it says: any JSON.
    value: Value,
    /// Rises with each write.
    #[schema(value_type = schema::VersionNumber)]
    version: (),
    /// When it was written: milliseconds since 1970 by the registry's clock.
    #[schema(value_type = schema::VersionNumber)]
    updated_at_ms: (),
}
