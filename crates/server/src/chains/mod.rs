//! Chains for people: how far they are, and what their endpoints can do.
//!
//! | file | what is in it |
//! |---|---|
//! | `mod` | list, show |
//! | `view` | a chain, as callers see it |

mod view;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use stile_domain::ChainId;
use stile_engine::ChainStatus;
use utoipa::ToSchema;

use self::view::ChainView;
use crate::access::Access;
use crate::app::{Served, Shared};
use crate::code::Code;
use crate::extract::Parts;
use crate::nonces::Number;
use crate::problem::{Problem, Problems};
use crate::schema;

/// The chains that this server follows.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChainList {
    items: Vec<ChainView>,
}

/// List the chains that this server follows, with what their endpoints can do.
///
/// As this node sees them: no chain is asked for it. A key that is for some signers sees their chains.
#[utoipa::path(
    get, path = "/api/v1/chains", tag = "chains", operation_id = "list_chains",
    responses(
        (status = 200, description = "All chains, by their numbers", body = ChainList),
        Problems,
    )
)]
pub(crate) async fn list(State(app): State<Shared>, access: Access) -> Json<ChainList> {
    Json(ChainList { items: shown(&app, &access).map(ChainView::from).collect() })
}

/// The chains that the caller may see: those of its signers. One without any signer is for whoever may see
/// all.
fn shown(app: &Served, access: &Access) -> impl Iterator<Item = ChainStatus> {
    let has_signer = |chain| app.directory.matching(access, Some(chain), None).next().is_some();
    app.node.chains().into_iter().filter(move |it| access.sees_all() || has_signer(it.chain))
}

/// Show one chain.
#[utoipa::path(
    get, path = "/api/v1/chains/{chainId}", tag = "chains", operation_id = "show_chain",
    params(("chainId" = schema::ChainId, Path)),
    responses(
        (status = 200, description = "The chain", body = ChainView),
        Problems,
    )
)]
pub(crate) async fn show(
    State(app): State<Shared>,
    access: Access,
    Parts(chain): Parts<String>,
) -> Result<Json<ChainView>, Problem> {
    let number = Number::try_from(chain).map_err(|why| Problem::field("chainId", why))?;
    let chain =
        ChainId::new(number.0).map_err(|error| Problem::field("chainId", error.to_string()))?;
    let found = shown(&app, &access).find(|status| status.chain == chain);
    let unknown =
        || Problem::new(Code::UnknownChain, format!("chain {chain} is not followed here"));
    Ok(Json(found.ok_or_else(unknown)?.into()))
}
