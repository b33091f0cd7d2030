//! A new key in the place of an old one.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use stile_domain::KeyId;
use stile_store::{KeyRef, Rotated, Rotation};
use utoipa::ToSchema;

use super::{MadeKey, fresh_token, key_id, seconds};
use crate::app::Shared;
use crate::code::Code;
use crate::extract::{Body, Parts};
use crate::problem::{Problem, Problems};
use crate::schema;

/// How long the old key stays good, unless told otherwise.
const OVERLAP: Duration = Duration::from_secs(24 * 3600);

/// How the two keys follow each other.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RotateBody {
    /// How long the old key stays good.
    #[schema(value_type = Option<schema::Overlap>)]
    overlap_seconds: Option<u64>,
    /// How long the new key is good for; as long as the old one was to be if left out.
    #[schema(value_type = Option<schema::Lifetime>)]
    expires_in_seconds: Option<u64>,
}

/// Make a key that takes the place of another one.
///
/// The new key has the name of the old one and may do what it could. The old one stays good for a
/// while, so that its owners can change over without a gap. The answer has the new key's token, this
/// once.
#[utoipa::path(
    post, path = "/api/v1/keys/{keyId}/rotate", tag = "keys", operation_id = "rotate_key",
    // By reference, since a body that is named by its type would be one that must be there.
    request_body(content = ref("#/components/schemas/RotateBody"), content_type = "application/json"),
    params(("keyId" = Uuid, Path)),
    responses(
        (status = 201, description = "The new key, with its token", body = MadeKey),
        Problems,
    )
)]
pub(crate) async fn rotate(
    State(app): State<Shared>,
    Parts(id): Parts<String>,
    Body(body): Body<RotateBody>,
) -> Result<Response, Problem> {
    let old = key_id(&id)?;
    let overlap = seconds("overlapSeconds", body.overlap_seconds)?.unwrap_or(OVERLAP);
    let lifetime = seconds("expiresInSeconds", body.expires_in_seconds)?;
    let (id, token) = (KeyId::fresh(), fresh_token()?);
    let (hash, hint) = (token.hash(), token.hint().to_owned());
    let rotation = Rotation { id, hash, hint, lifetime, overlap };
    let ended = |why: &str| Err(Problem::new(Code::KeyEnded, format!("API key {old} {why}")));
    match app.guard.store().rotate_key(&KeyRef::Id(old), &rotation).await? {
        Rotated::Done { new, old } => {
            tracing::warn!(key = %new.id, name = %new.name, old = %old.id, "API key rotated");
            app.guard.refresh().await;
            Ok(MadeKey::answer(*new, &token))
        }
        Rotated::Revoked(_) => ended("was revoked"),
        Rotated::Replaced(_) => ended("was rotated before"),
        Rotated::Unknown => {
            Err(Problem::new(Code::KeyNotFound, format!("there is no API key {old}")))
        }
    }
}
