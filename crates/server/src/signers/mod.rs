//! Lanes for people.
//!
//! | file | what is in it |
//! |---|---|
//! | `mod` | list, show, pause |
//! | `care` | what is wrong with a lane, and what can be done: doctor, repair, resume, reconcile |
//! | `diagnosis` | what the doctor says, as callers see it |
//! | `restored` | what waits because the database was restored |
//! | `history` | what happened to a lane |

pub(crate) mod care;
pub(crate) mod diagnosis;
pub(crate) mod history;
pub(crate) mod restored;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use serde::{Deserialize, Serialize};
use stile_domain::{ChainId, Elsewhere, Lane, Timestamp};
use stile_store::LaneView;
use utoipa::{IntoParams, ToSchema};

use crate::access::Access;
use crate::app::Shared;
use crate::code::Code;
use crate::extract::{self, Body, Parts};
use crate::nonces::{self, ChainNumber, Number};
use crate::problem::{Problem, Problems};
use crate::schema;

/// A signer on a chain. Before its first use everything but its name is null.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Signer)]
pub(crate) struct SignerView {
    /// The chain.
    #[schema(value_type = schema::ChainId)]
    chain_id: u64,
    /// The same as a text.
    #[schema(value_type = schema::ChainIdText)]
    chain_id_text: String,
    /// The account, with EIP-55 checksum.
    #[schema(value_type = schema::Address)]
    signer: String,
    /// The node that holds it, or held it last.
    owner_node: Option<String>,
    /// Where that node is reached.
    owner_url: Option<String>,
    /// The number that rises with every change of holder.
    fencing_token: Option<u64>,
    /// When the lease ends or ended, by the database's clock.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    /// The next fresh nonce; null until the lane has been aligned with its chain.
    next_nonce: Option<u64>,
    /// The chain's transaction count when last compared.
    chain_nonce: Option<u64>,
    /// Managed transactions bound and not yet mined.
    in_flight: u64,
    /// Managed transactions accepted and not yet bound.
    queued: u64,
    /// Nonces below the next one that nobody has, lowest first, at most 100.
    gaps: Vec<u64>,
    /// Holds that stand HELD.
    held: u64,
    /// Holds that stand SUSPECT.
    suspect: u64,
    /// Why the lane is paused, or null.
    paused: Option<String>,
    /// Null if Stile gives out its nonces; else why not: `v1`, `stopped`, `share`.
    elsewhere: Option<&'static str>,
}

impl SignerView {
    fn new(lane: Lane, view: Option<LaneView>) -> Self {
        let signer = lane.signer.to_string();
        let unused = Self {
            chain_id: lane.chain.get(),
            chain_id_text: lane.chain.to_string(),
            signer,
            owner_node: None,
            owner_url: None,
            fencing_token: None,
            expires_at: None,
            next_nonce: None,
            chain_nonce: None,
            in_flight: 0,
            queued: 0,
            gaps: Vec::new(),
            held: 0,
            suspect: 0,
            paused: None,
            elsewhere: None,
        };
        let Some(view) = view else { return unused };
        Self {
            owner_node: Some(view.owner.node.0),
            owner_url: view.owner.url,
            fencing_token: Some(view.owner.token.get()),
            expires_at: Some(view.expires_at),
            next_nonce: view.next_nonce,
            chain_nonce: view.last_chain_nonce,
            in_flight: view.in_flight,
            queued: view.queued,
            gaps: view.gaps,
            held: view.held,
            suspect: view.suspect,
            paused: view.paused,
            elsewhere: view.elsewhere.map(Elsewhere::name),
            ..unused
        }
    }
}

/// Which signers to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct SignersQuery {
    /// Only this chain's.
    #[param(value_type = Option<schema::GivenChainId>)]
    chain_id: Option<ChainNumber>,
    /// `next` of the page before.
    #[param(value_type = Option<schema::SignerCursor>)]
    cursor: Option<String>,
    /// 1 to 500; 100 if left out.
    #[param(value_type = Option<schema::Limit>)]
    limit: Option<Number>,
}

/// Which lane of a signer.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct SignerQuery {
    /// May be left out while there is one chain.
    #[param(value_type = Option<schema::GivenChainId>)]
    chain_id: Option<ChainNumber>,
}

/// A page of signers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SignerList {
    items: Vec<SignerView>,
    /// The cursor of the next page, if there is one.
    #[schema(value_type = Option<schema::SignerCursor>)]
    next: Option<String>,
}

/// Why a lane is to be paused.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct PauseBody {
    /// May be left out while there is one chain.
    #[schema(value_type = Option<schema::GivenChainId>)]
    chain_id: Option<ChainId>,
    /// Shown to every caller that is refused.
    #[schema(value_type = schema::Reason)]
    reason: String,
}

/// List the signers that this server serves.
#[utoipa::path(
    get, path = "/api/v1/signers", tag = "signers", operation_id = "list_signers",
    params(SignersQuery),
    responses(
        (status = 200, description = "A page of signers", body = SignerList),
        Problems,
    )
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    access: Access,
    uri: Uri,
) -> Result<Json<SignerList>, Problem> {
    let query: SignersQuery = extract::query(&uri)?;
    let (chain, limit) = (nonces::chain(query.chain_id)?, nonces::limit(query.limit)? as usize);
    let after = query.cursor.as_deref().map(parse_cursor).transpose()?;
    let mut lanes: Vec<Lane> = app
        .directory
        .after(&access, after)
        .filter(|lane| chain.is_none_or(|chain| lane.chain == chain))
        .take(limit + 1)
        .collect();
    let more = lanes.len() > limit;
    lanes.truncate(limit);
    let next = lanes.last().filter(|_| more).map(|lane| format!("{}:{}", lane.chain, lane.signer));
    let views = app.node.nonces().lanes(&lanes).await?;
    let items = lanes.into_iter().zip(views).map(|(lane, view)| signer_view(&app, lane, view));
    Ok(Json(SignerList { items: items.collect(), next }))
}

fn parse_cursor(text: &str) -> Result<Lane, Problem> {
    let bad = || Problem::field("cursor", "is not one that this server gave out");
    let (chain, signer) = text.split_once(':').ok_or_else(bad)?;
    let chain = chain.parse().ok().and_then(|id| ChainId::new(id).ok()).ok_or_else(bad)?;
    Ok(Lane::new(chain, extract::signer(signer).map_err(|_| bad())?))
}

/// Show one signer.
#[utoipa::path(
    get, path = "/api/v1/signers/{signer}", tag = "signers",
    params(("signer" = schema::Address, Path), SignerQuery),
    responses(
        (status = 200, description = "The signer", body = SignerView),
        Problems,
    )
)]
pub(crate) async fn show(
    State(app): State<Shared>,
    access: Access,
    Parts(signer): Parts<String>,
    uri: Uri,
) -> Result<Json<SignerView>, Problem> {
    let query: SignerQuery = extract::query(&uri)?;
    let lane =
        app.directory.lane(&access, nonces::chain(query.chain_id)?, extract::signer(&signer)?)?;
    Ok(Json(view(&app, lane).await?))
}

/// Stop giving out a signer's nonces.
///
/// Nonces given out before stay with their callers. Every plan in memory, on any node, dies.
#[utoipa::path(
    post, path = "/api/v1/signers/{signer}/pause", tag = "signers", request_body = PauseBody,
    params(("signer" = schema::Address, Path)),
    responses(
        (status = 200, description = "The signer, paused", body = SignerView),
        Problems,
    )
)]
pub(crate) async fn pause(
    State(app): State<Shared>,
    access: Access,
    Parts(signer): Parts<String>,
    Body(body): Body<PauseBody>,
) -> Result<Json<SignerView>, Problem> {
    let lane = app.directory.lane(&access, body.chain_id, extract::signer(&signer)?)?;
    let reason = nonces::reason(body.reason)?;
    if !app.node.nonces().pause(lane, &reason).await? {
        return Err(not_started(lane));
    }
    tracing::warn!(signer = %lane.signer, chain = %lane.chain, key = %access, reason, "lane paused by an operator");
    Ok(Json(view(&app, lane).await?))
}

/// A lane that nobody ever took.
fn not_started(lane: Lane) -> Problem {
    let detail = format!("no nonce of {} on chain {} was ever asked for", lane.signer, lane.chain);
    Problem::new(Code::LaneNotStarted, detail)
}

async fn view(app: &Shared, lane: Lane) -> Result<SignerView, Problem> {
    let view = app.node.nonces().lanes(&[lane]).await?.pop().flatten();
    Ok(signer_view(app, lane, view))
}

/// Whose a lane is that nobody has taken yet, its row cannot say.
fn signer_view(app: &Shared, lane: Lane, view: Option<LaneView>) -> SignerView {
    let unused = view.is_none();
    let mut signer = SignerView::new(lane, view);
    if unused {
        signer.elsewhere = app.node.nonces().elsewhere(lane).map(Elsewhere::name);
    }
    signer
}
