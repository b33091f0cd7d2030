//! API keys over HTTP, for admins: list, make, rotate, revoke.
//!
//! | file | what is in it |
//! |---|---|
//! | `rotate` | a new key in the place of an old one |
//! | `text` | operations, signers and networks as callers write them |
//!
//! The first key may be made here too: until there was one, the server is open to its own machine.

pub(crate) mod rotate;
mod text;

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use stile_domain::{KeyId, Networks, Operation, Scope, ScopeError, SignerScope, Timestamp, Token};
use stile_store::{Key, KeyRef, NewKey};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::app::Shared;
use crate::code::Code;
use crate::extract::{self, Body, Parts};
use crate::keys::text::{OperationText, SignersText};
use crate::problem::{Problem, Problems};
use crate::schema;

/// Ten years.
const LONGEST_LIFETIME_SECONDS: u64 = 315_360_000;

/// A key. Nothing in it lets anybody in.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Key)]
pub(crate) struct KeyView {
    /// Its name for programs.
    key_id: Uuid,
    /// Its name for people.
    #[schema(value_type = schema::KeyName)]
    name: String,
    /// What its token begins with, after `stile_`.
    hint: String,
    /// What it may do.
    #[schema(value_type = Vec<schema::OperationName>)]
    operations: Vec<&'static str>,
    /// For which signers.
    signers: SignersText,
    /// The networks that it may be used from; null for anywhere.
    #[schema(value_type = Option<Vec<schema::Network>>)]
    from: Option<Vec<String>>,
    /// When it was made. All times are the database's.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When it ends by itself; null for never.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    /// When it was last used, give or take a minute; null for never.
    #[schema(value_type = Option<String>, format = DateTime)]
    last_used_at: Option<Timestamp>,
    /// The key that took its place; null if it was not rotated.
    replaced_by: Option<Uuid>,
    /// When it was revoked; null if it was not.
    #[schema(value_type = Option<String>, format = DateTime)]
    revoked_at: Option<Timestamp>,
}

impl From<Key> for KeyView {
    fn from(key: Key) -> Self {
        Self {
            key_id: key.id.0,
            name: key.name.to_string(),
            hint: key.hint,
            operations: key.scope.operations().map(Operation::name).collect(),
            signers: SignersText(key.scope.signers().clone()),
            from: key.networks.map(|networks| networks.texts().collect()),
            created_at: key.created_at,
            expires_at: key.expires_at,
            last_used_at: key.last_used_at,
            replaced_by: key.replaced_by.map(|id| id.0),
            revoked_at: key.revoked_at,
        }
    }
}

/// A key with its token, which is shown this once. Not for debug output.
#[derive(Serialize, ToSchema)]
pub(crate) struct MadeKey {
    #[serde(flatten)]
    key: KeyView,
    /// The token to send as `Authorization: Bearer …`. It is kept nowhere: whoever loses it makes
    /// another key.
    #[schema(pattern = "^stile_[A-Za-z0-9_-]{43}$")]
    token: String,
}

impl MadeKey {
    /// The answer that has the token, which nobody on the way may keep.
    fn answer(key: Key, token: &Token) -> Response {
        let made = Self { key: key.into(), token: token.reveal().to_owned() };
        let headers = [(header::CACHE_CONTROL, "no-store")];
        (StatusCode::CREATED, headers, Json(made)).into_response()
    }
}

/// A key to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = MakeKey, example = json!({
    "name": "shop",
    "operations": ["read", "send"],
    "signers": ["0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"],
    "expiresInSeconds": 7_776_000,
}))]
pub(crate) struct MakeBody {
    /// No two keys that are not revoked have the same.
    #[schema(value_type = schema::KeyName)]
    name: String,
    /// What it may do; `read` and `send` if left out.
    #[schema(value_type = Option<Vec<schema::OperationName>>, min_items = 1)]
    operations: Option<Vec<OperationText>>,
    /// For which signers. A key for all of them says so; only one that may do `admin`, which is
    /// always for all, can leave it out.
    signers: Option<SignersText>,
    /// Where it may be used from, by the address at the other end of the connection; anywhere if left
    /// out. Behind a reverse proxy that is the proxy's.
    #[schema(value_type = Option<Vec<schema::Network>>, min_items = 1, max_items = 32)]
    from: Option<Vec<String>>,
    /// How long it is good for; for ever if left out.
    #[schema(value_type = Option<schema::Lifetime>)]
    expires_in_seconds: Option<u64>,
}

/// Which keys to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct KeysQuery {
    /// Also those that were revoked.
    #[param(value_type = Option<bool>)]
    all: Option<Flag>,
}

/// `true` or `false` in a query string.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Flag {
    True,
    False,
}

/// All keys.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyList {
    items: Vec<KeyView>,
    /// Always null: keys come all at once.
    next: Option<u64>,
}

impl MakeBody {
    fn scope(&self) -> Result<Scope, Problem> {
        let operations: Vec<Operation> = match &self.operations {
            Some(given) => given.iter().map(|OperationText(operation)| *operation).collect(),
            None => vec![Operation::Read, Operation::Send],
        };
        let signers = match &self.signers {
            Some(SignersText(signers)) => signers.clone(),
            None if operations.contains(&Operation::Admin) => SignerScope::All,
            None => return Err(Problem::field("signers", text::SIGNERS_RULE)),
        };
        Scope::new(operations, signers).map_err(|error| {
            let field = match error {
                ScopeError::NoOperation => "operations",
                ScopeError::NoSigner | ScopeError::AdminOfSome => "signers",
            };
            Problem::field(field, error.to_string())
        })
    }

    fn networks(&self) -> Result<Option<Networks>, Problem> {
        let networks = self.from.as_ref().map(Networks::new).transpose();
        networks.map_err(|error| Problem::field("from", error.to_string()))
    }
}

/// A time in a body, which may be left out.
fn seconds(field: &'static str, given: Option<u64>) -> Result<Option<Duration>, Problem> {
    match given {
        None => Ok(None),
        Some(seconds @ 1..=LONGEST_LIFETIME_SECONDS) => Ok(Some(Duration::from_secs(seconds))),
        Some(_) => {
            Err(Problem::field(field, format!("must be from 1 to {LONGEST_LIFETIME_SECONDS}")))
        }
    }
}

/// A new token.
fn fresh_token() -> Result<Token, Problem> {
    Token::fresh().map_err(|error| {
        tracing::error!(%error, "the operating system has no randomness");
        Problem::new(Code::Internal, "see the log")
    })
}

/// The key in a path.
fn key_id(text: &str) -> Result<KeyId, Problem> {
    let id = Uuid::try_parse(text).map(KeyId);
    id.map_err(|_| Problem::field("keyId", "must be a UUID, as GET /api/v1/keys has it"))
}

/// List the keys, in the order they were made.
#[utoipa::path(
    get, path = "/api/v1/keys", tag = "keys", operation_id = "list_keys",
    params(KeysQuery),
    responses(
        (status = 200, description = "The keys", body = KeyList),
        Problems,
    )
)]
pub(crate) async fn list(State(app): State<Shared>, uri: Uri) -> Result<Json<KeyList>, Problem> {
    let query: KeysQuery = extract::query(&uri)?;
    let keys = app.guard.store().keys(matches!(query.all, Some(Flag::True))).await?;
    Ok(Json(KeyList { items: keys.into_iter().map(KeyView::from).collect(), next: None }))
}

/// Make a key.
///
/// The answer has its token, this once. It works on this node at once, and on every other the first
/// time it is used there. From the first key on every call needs one.
#[utoipa::path(
    post, path = "/api/v1/keys", tag = "keys", operation_id = "make_key",
    request_body = MakeBody,
    responses(
        (status = 201, description = "The key, with its token", body = MadeKey),
        Problems,
    )
)]
pub(crate) async fn create(
    State(app): State<Shared>,
    Body(body): Body<MakeBody>,
) -> Result<Response, Problem> {
    let name = body.name.parse().map_err(|e| Problem::field("name", format!("{e}")))?;
    let (scope, networks) = (body.scope()?, body.networks()?);
    let lifetime = seconds("expiresInSeconds", body.expires_in_seconds)?;
    let (id, token) = (KeyId::fresh(), fresh_token()?);
    let (hash, hint) = (token.hash(), token.hint().to_owned());
    let new = NewKey { id, name, hash, hint, scope, networks, lifetime };
    let Some(key) = app.guard.store().create_key(&new).await? else {
        let detail = format!("there is a key named {} already", new.name);
        return Err(Problem::new(Code::KeyNameTaken, detail));
    };
    tracing::warn!(key = %key.id, name = %key.name, "API key made");
    app.guard.refresh().await;
    Ok(MadeKey::answer(key, &token))
}

/// Revoke a key, for good.
///
/// It lets nobody in any more: on this node at once, on the others within a second. To revoke a key
/// again changes nothing.
#[utoipa::path(
    delete, path = "/api/v1/keys/{keyId}", tag = "keys", operation_id = "revoke_key",
    params(("keyId" = Uuid, Path)),
    responses(
        (status = 204, description = "It is revoked"),
        Problems,
    )
)]
pub(crate) async fn revoke(
    State(app): State<Shared>,
    Parts(id): Parts<String>,
) -> Result<StatusCode, Problem> {
    let id = key_id(&id)?;
    let Some(key) = app.guard.store().revoke_key(&KeyRef::Id(id)).await? else {
        return Err(Problem::new(Code::KeyNotFound, format!("there is no API key {id}")));
    };
    tracing::warn!(key = %key.id, name = %key.name, "API key revoked");
    app.guard.refresh().await;
    Ok(StatusCode::NO_CONTENT)
}
