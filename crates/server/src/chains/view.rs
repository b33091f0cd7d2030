//! A chain, as callers see it.

use serde::Serialize;
use stile_engine::{CapabilityRow, ChainStatus, EndpointCapabilities, EndpointStatus};
use utoipa::ToSchema;

use crate::schema;

/// A chain, as this node sees it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Chain)]
pub(crate) struct ChainView {
    /// The chain.
    #[schema(value_type = schema::ChainId)]
    chain_id: u64,
    /// The same as a text.
    #[schema(value_type = schema::ChainIdText)]
    chain_id_text: String,
    /// The height of its newest block; null until it has been seen.
    head: Option<u64>,
    /// The height that is called safe; null while nothing asks for it, or nobody says.
    safe: Option<u64>,
    /// The height that is called finalized; null while nothing asks for it, or nobody says.
    finalized: Option<u64>,
    /// The time from one block to the next, as it was measured lately; null until some were seen.
    block_time_seconds: Option<f64>,
    /// How many endpoints have to agree.
    quorum: usize,
    /// Its endpoints, in the order of the configuration.
    endpoints: Vec<EndpointView>,
}

/// An endpoint of a chain.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ChainEndpoint)]
struct EndpointView {
    /// Its host and port, with a number where several have both in common.
    endpoint: String,
    /// Whether it is in use.
    usable: bool,
    /// Why it is not, or what is wrong with it.
    why: Option<String>,
    /// The height of its newest block, when it last said so.
    head: Option<u64>,
    /// How many blocks it is behind the endpoint that has come furthest.
    lag: Option<u64>,
    /// Why it takes no transactions, in its own words; null if it is not known to refuse them all.
    read_only: Option<String>,
    /// What it said lately that the other endpoints contradict.
    contradiction: Option<String>,
    /// What the node calls itself.
    client_version: Option<String>,
    /// What it can do, as far as that is known.
    capabilities: Vec<CapabilityView>,
}

/// Something that some nodes can do and others cannot.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Capability)]
struct CapabilityView {
    /// A stable name for it.
    #[schema(value_type = schema::CapabilityName)]
    name: &'static str,
    /// Whether the endpoint can do it.
    #[schema(value_type = schema::SupportedName)]
    supported: &'static str,
    /// How far, where there is more to say than yes or no.
    detail: Option<String>,
    /// What Stile does instead; null if the endpoint can do it, or that is not known.
    instead: Option<&'static str>,
    /// What is not possible because the endpoint cannot do it.
    impossible: Option<&'static str>,
}

impl From<ChainStatus> for ChainView {
    fn from(status: ChainStatus) -> Self {
        let furthest = status.endpoints.iter().filter_map(|(endpoint, _)| endpoint.head).max();
        let endpoints = status.endpoints.into_iter();
        Self {
            chain_id: status.chain.get(),
            chain_id_text: status.chain.to_string(),
            head: status.heads.map(|heads| heads.latest),
            safe: status.heads.and_then(|heads| heads.safe),
            finalized: status.heads.and_then(|heads| heads.finalized),
            block_time_seconds: status.block_time.map(|time| time.as_secs_f64()),
            quorum: status.quorum.required(),
            endpoints: endpoints.map(|(it, can)| endpoint(it, can, furthest)).collect(),
        }
    }
}

fn endpoint(
    status: EndpointStatus,
    capabilities: EndpointCapabilities,
    furthest: Option<u64>,
) -> EndpointView {
    let lag = furthest.zip(status.head).map(|(furthest, head)| furthest.saturating_sub(head));
    EndpointView {
        endpoint: status.shown,
        usable: status.usable,
        why: status.why,
        head: status.head,
        lag,
        read_only: status.read_only,
        contradiction: status.contradiction,
        client_version: capabilities.client_version,
        capabilities: capabilities.rows.into_iter().map(CapabilityView::from).collect(),
    }
}

impl From<CapabilityRow> for CapabilityView {
    fn from(row: CapabilityRow) -> Self {
        Self {
            name: row.name,
            supported: row.supported.name(),
            detail: row.detail,
            instead: row.instead,
            impossible: row.impossible,
        }
    }
}
