//! A call as it came, so that it can be passed on unchanged.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, Method};
use serde::de::DeserializeOwned;

use super::hop::Hop;
use crate::access::Access;
use crate::extract::{self, Body};
use crate::problem::Problem;

/// A call as it came.
#[derive(Debug, Clone)]
pub(crate) struct Original {
    pub(super) method: Method,
    /// With the query.
    pub(super) path: String,
    /// Those that matter to whoever answers it.
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// Whether another node has passed it on already.
    pub(super) passed_on: bool,
    /// On whose behalf it is made.
    pub(super) access: Access,
}

/// What travels along. Not the caller's key: a node says on whose behalf it asks, and signs it.
pub(super) const TRAVELLING: [&str; 2] = ["content-type", "idempotency-key"];

/// A JSON body, and the call as it came.
pub(crate) struct Whole<T> {
    pub(crate) body: T,
    pub(crate) original: Original,
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Whole<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let travelling =
            parts.headers.iter().filter(|(name, _)| TRAVELLING.contains(&name.as_str()));
        let headers = travelling.map(|(name, value)| (name.clone(), value.clone())).collect();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let passed_on = parts.extensions.get::<Hop>().is_some_and(|hop| hop.0);
        let method = parts.method.clone();
        let access = Access::of(&parts)?;
        let bytes = Bytes::from_request(Request::from_parts(parts, body), state).await;
        let bytes = bytes.map_err(extract::unreadable)?;
        let Body(body) = Body::read(&bytes)?;
        let original = Original { method, path, headers, body: bytes, passed_on, access };
        Ok(Self { body, original })
    }
}

impl Original {
    /// An optional `Idempotency-Key`.
    pub(crate) fn key(&self) -> Result<Option<String>, Problem> {
        extract::idempotency_key(&self.headers)
    }
}
