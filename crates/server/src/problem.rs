//! RFC 9457 problem documents.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use stile_engine::NonceError;
use utoipa::openapi::{self, RefOr};
use utoipa::{IntoResponses, ToSchema};

use crate::code::Code;
use crate::nonces::HoldView;

/// Everything a handler may answer instead of what was asked for.
#[derive(Debug)]
pub struct Problem {
    body: Box<ProblemBody>,
    status: axum::http::StatusCode,
    retry_after: Option<Duration>,
    owner_url: Option<String>,
}

/// What went wrong, for programs (`code`) and for people (the rest).
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Problem)]
pub(crate) struct ProblemBody {
    /// The code as a URN.
    #[schema(example = "urn:stile:error:queue-full")]
    r#type: String,
    /// What the code means.
    title: &'static str,
    /// The HTTP status again.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// What happened this time.
    detail: String,
    /// The stable name to match on.
    #[schema(example = "queue-full")]
    code: &'static str,
    /// What to do about it.
    hint: &'static str,
    /// The fields at fault.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
    /// The hold as it stands, where a mark contradicts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hold: Option<HoldView>,
}

/// What every call may answer besides what was asked for, for the OpenAPI document.
pub(crate) struct Problems;

impl IntoResponses for Problems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        let content = || {
            let schema = openapi::Ref::from_schema_name("Problem");
            openapi::ContentBuilder::new().schema(Some(schema)).build()
        };
        let answer = || {
            openapi::ResponseBuilder::new()
                .description("See the code")
                .content("application/problem+json", content())
                .build()
        };
        ["4XX", "5XX"].map(|status| (status.to_owned(), RefOr::T(answer()))).into()
    }
}

/// One field at fault.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FieldError {
    /// Its name, as the caller spells it.
    pub(crate) field: String,
    /// What is wrong with it.
    pub(crate) detail: String,
}

impl Problem {
    /// A problem of this kind.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            body: Box::new(ProblemBody {
                r#type: format!("urn:stile:error:{}", code.text()),
                title: code.title(),
                status: code.status().as_u16(),
                detail: detail.into(),
                code: code.text(),
                hint: code.hint(),
                errors: Vec::new(),
                hold: None,
            }),
            status: code.status(),
            retry_after: None,
            owner_url: None,
        }
    }

    /// A bad field.
    pub fn field(field: impl Into<String>, detail: impl Into<String>) -> Self {
        let (field, detail) = (field.into(), detail.into());
        let mut problem = Self::new(Code::InvalidField, format!("{field}: {detail}"));
        problem.body.errors.push(FieldError { field, detail });
        problem
    }
}

impl From<NonceError> for Problem {
    fn from(error: NonceError) -> Self {
        let (code, owner, hold) = match &error {
            NonceError::NotHolder { owner, .. } => (Code::NotHolder, Some(owner), None),
            NonceError::Fenced { owner, .. } => (Code::Fenced, Some(owner), None),
            NonceError::LanePaused { .. } => (Code::LanePaused, None, None),
            NonceError::QueueFull => (Code::QueueFull, None, None),
            NonceError::ShuttingDown => (Code::ShuttingDown, None, None),
            NonceError::StoreUnavailable(_) => (Code::StoreUnavailable, None, None),
            NonceError::ChainUnavailable { .. } => (Code::ChainUnavailable, None, None),
            NonceError::HoldNotFound => (Code::HoldNotFound, None, None),
            NonceError::HoldConflict { hold } => (Code::HoldConflict, None, Some(hold)),
            NonceError::HoldSuperseded { hold } => (Code::HoldSuperseded, None, Some(hold)),
            NonceError::Internal(_) => (Code::Internal, None, None),
        };
        let mut problem = match &error {
            NonceError::Internal(detail) => {
                tracing::error!(detail, "a call failed");
                Self::new(code, "see the log")
            }
            error => Self::new(code, error.to_string()),
        };
        problem.retry_after = error.retry_after();
        problem.owner_url = owner.and_then(|owner| owner.url.clone());
        problem.body.hold = hold.map(|hold| HoldView::from(hold.as_ref()));
        problem
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, axum::Json(self.body)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(wait) = self.retry_after {
            headers
                .insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs_f64().ceil() as u64));
        }
        if let Some(url) = self.owner_url.and_then(|url| HeaderValue::try_from(url).ok()) {
            headers.insert("stile-owner-url", url);
        }
        response
    }
}
