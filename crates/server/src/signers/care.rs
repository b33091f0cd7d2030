//! What is wrong with a lane, and what can be done about it.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use stile_domain::{ChainId, Lane, MAX_NONCE, Nonce};
use stile_engine::{CareError, Mismatch};
use utoipa::ToSchema;

use super::diagnosis::{DiagnosisView, RepairView};
use super::{SignerQuery, SignerView, not_started, view};
use crate::access::Access;
use crate::app::Shared;
use crate::code::Code;
use crate::extract::{self, Body, Parts};
use crate::nonces;
use crate::peers::Whole;
use crate::problem::{Problem, Problems};
use crate::schema;

/// More nonces than anybody can vouch for at once.
const MOST_ATTESTED: usize = 1000;

/// What is to be mended.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RepairBody {
    /// May be left out while there is one chain.
    #[schema(value_type = Option<schema::GivenChainId>)]
    chain_id: Option<ChainId>,
    /// Whether it is done, or only told what would be done, as if left out.
    apply: Option<bool>,
    /// Nonces of which you know that nothing was sent with them, and nothing will be. Nobody can
    /// see that on the chain; if it is not so, two transactions compete for the nonce.
    #[schema(value_type = Option<Vec<schema::Nonce>>, max_items = 1000)]
    attest: Option<Vec<Nonce>>,
}

/// Which lane is to be resumed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ResumeBody {
    /// May be left out while there is one chain.
    #[schema(value_type = Option<schema::GivenChainId>)]
    chain_id: Option<ChainId>,
    /// Only say what would be done.
    dry_run: Option<bool>,
}

/// Which lane is to be compared with its chain.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ReconcileBody {
    /// May be left out while there is one chain.
    #[schema(value_type = Option<schema::GivenChainId>)]
    chain_id: Option<ChainId>,
}

/// A signer, and how it gets back in step with its chain.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ResumedSigner)]
pub(crate) struct ResumedView {
    #[serde(flatten)]
    signer: SignerView,
    /// What was done, or would be, in words.
    plan: Vec<String>,
}

/// What does not agree between the records and the chain.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Reconciliation)]
pub(crate) struct ReconciliationView {
    /// Empty if everything agrees.
    mismatches: Vec<MismatchView>,
}

/// One thing that does not agree.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Mismatch)]
struct MismatchView {
    /// A stable name for it.
    kind: &'static str,
    /// What it is, in words.
    words: String,
}

impl From<Mismatch> for MismatchView {
    fn from(mismatch: Mismatch) -> Self {
        Self { kind: mismatch.kind, words: mismatch.words }
    }
}

/// What a caller is told whose lane could not be cared for.
pub(super) fn refused(lane: Lane) -> impl Fn(CareError) -> Problem {
    move |error| match error {
        CareError::NotStarted => not_started(lane),
        CareError::ChainSilent => Problem::new(Code::ChainUnavailable, error.to_string()),
        CareError::Store(error) => error.into(),
    }
}

/// Why does a signer not move?
///
/// Looks at the records, at the chain and at every endpoint, and says what is wrong and what can be
/// done about it. Changes nothing.
#[utoipa::path(
    get, path = "/api/v1/signers/{signer}/doctor", tag = "signers",
    params(("signer" = schema::Address, Path), SignerQuery),
    responses(
        (status = 200, description = "The diagnosis", body = DiagnosisView),
        Problems,
    )
)]
pub(crate) async fn doctor(
    State(app): State<Shared>,
    access: Access,
    Parts(signer): Parts<String>,
    uri: Uri,
) -> Result<Json<DiagnosisView>, Problem> {
    let query: SignerQuery = extract::query(&uri)?;
    let lane =
        app.directory.lane(&access, nonces::chain(query.chain_id)?, extract::signer(&signer)?)?;
    let diagnosis = app.node.lanes().doctor(lane).await.map_err(refused(lane))?;
    Ok(Json(diagnosis.into()))
}

/// Mend a signer that does not move.
///
/// Without `apply` it only says what would be done. What could make two transactions compete for one
/// nonce is done only for nonces that `attest` names.
#[utoipa::path(
    post, path = "/api/v1/signers/{signer}/repair", tag = "signers",
    // By reference, since a body that is named by its type would be one that must be there.
    request_body(content = ref("#/components/schemas/RepairBody"), content_type = "application/json"),
    params(("signer" = schema::Address, Path)),
    responses(
        (status = 200, description = "What was done, or would be", body = RepairView),
        Problems,
    )
)]
pub(crate) async fn repair(
    State(app): State<Shared>,
    access: Access,
    Parts(signer): Parts<String>,
    Whole { body, original }: Whole<RepairBody>,
) -> Result<Response, Problem> {
    let lane = app.directory.lane(&access, body.chain_id, extract::signer(&signer)?)?;
    let (apply, attest) = (body.apply.unwrap_or(false), attested(body.attest)?);
    if apply {
        if let Some(answer) = app.by_holder(lane, &original).await {
            return Ok(answer);
        }
        tracing::warn!(signer = %lane.signer, chain = %lane.chain, key = %access, ?attest, "repair ordered by an operator");
    }
    let repair = app.node.lanes().repair(lane, apply, &attest).await.map_err(refused(lane))?;
    Ok(Json(RepairView::from(repair)).into_response())
}

/// Nonces that somebody vouches for.
fn attested(nonces: Option<Vec<Nonce>>) -> Result<Vec<Nonce>, Problem> {
    let nonces = nonces.unwrap_or_default();
    if nonces.len() > MOST_ATTESTED {
        return Err(Problem::field("attest", format!("must be {MOST_ATTESTED} nonces at most")));
    }
    if let Some(place) = nonces.iter().position(|nonce| *nonce > MAX_NONCE) {
        let detail = format!("must be a whole number from 0 to {MAX_NONCE}");
        return Err(Problem::field(format!("attest[{place}]"), detail));
    }
    Ok(nonces)
}

/// Give out a signer's nonces again.
///
/// First the signer gets back in step with its chain; `plan` says how. With `dryRun` that is all.
#[utoipa::path(
    post, path = "/api/v1/signers/{signer}/resume", tag = "signers",
    // By reference, since a body that is named by its type would be one that must be there.
    request_body(content = ref("#/components/schemas/ResumeBody"), content_type = "application/json"),
    params(("signer" = schema::Address, Path)),
    responses(
        (status = 200, description = "The signer, no longer paused unless it was a dry run or more is to be sent", body = ResumedView),
        Problems,
    )
)]
pub(crate) async fn resume(
    State(app): State<Shared>,
    access: Access,
    Parts(signer): Parts<String>,
    Whole { body, original }: Whole<ResumeBody>,
) -> Result<Response, Problem> {
    let lane = app.directory.lane(&access, body.chain_id, extract::signer(&signer)?)?;
    let dry_run = body.dry_run.unwrap_or(false);
    if !dry_run && let Some(answer) = app.by_holder(lane, &original).await {
        return Ok(answer);
    }
    let resumption = app.node.lanes().resume(lane, dry_run).await.map_err(refused(lane))?;
    if resumption.resumed {
        tracing::warn!(signer = %lane.signer, chain = %lane.chain, key = %access, "lane resumed by an operator");
    }
    let signer = view(&app, lane).await?;
    Ok(Json(ResumedView { signer, plan: resumption.plan }).into_response())
}

/// Compare a signer's records with its chain, to the last nonce.
///
/// Changes nothing.
#[utoipa::path(
    post, path = "/api/v1/signers/{signer}/reconcile", tag = "signers",
    // By reference, since a body that is named by its type would be one that must be there.
    request_body(content = ref("#/components/schemas/ReconcileBody"), content_type = "application/json"),
    params(("signer" = schema::Address, Path)),
    responses(
        (status = 200, description = "What does not agree", body = ReconciliationView),
        Problems,
    )
)]
pub(crate) async fn reconcile(
    State(app): State<Shared>,
    access: Access,
    Parts(signer): Parts<String>,
    Body(body): Body<ReconcileBody>,
) -> Result<Json<ReconciliationView>, Problem> {
    let lane = app.directory.lane(&access, body.chain_id, extract::signer(&signer)?)?;
    let mismatches = app.node.lanes().reconcile(lane).await.map_err(refused(lane))?;
    let mismatches = mismatches.into_iter().map(MismatchView::from).collect();
    Ok(Json(ReconciliationView { mismatches }))
}
