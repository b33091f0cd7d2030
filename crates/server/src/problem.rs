//! RFC 9457 problem documents.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use stile_domain::{PayloadError, TxId};
use stile_engine::{NonceError, TxError};
use stile_store::StoreError;
use utoipa::openapi::{self, RefOr};
use utoipa::{IntoResponses, ToSchema};
use uuid::Uuid;

use crate::code::Code;
use crate::nonces::HoldView;
use crate::schema;

/// Everything a handler may answer instead of what was asked for.
#[derive(Debug)]
pub struct Problem {
    body: Box<ProblemBody>,
    status: StatusCode,
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
    #[schema(value_type = schema::ErrorCode)]
    code: &'static str,
    /// What to do about it.
    hint: &'static str,
    /// The fields at fault.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
    /// The hold as it stands, where a mark contradicts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hold: Option<HoldView>,
    /// The transaction that has the request id, or that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    tx_id: Option<Uuid>,
    /// The least that it would have to be: a gas limit, or what the account has in wei.
    #[schema(value_type = Option<schema::Wei>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    least: Option<String>,
    /// The most that it may be: a gas limit, or what is offered for a unit of gas in wei.
    #[schema(value_type = Option<schema::Wei>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    most: Option<String>,
    /// What the account has, in wei.
    #[schema(value_type = Option<schema::Wei>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    balance: Option<String>,
    /// What everything that is open on the lane may cost, in wei.
    #[schema(value_type = Option<schema::Wei>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    queued: Option<String>,
    /// Why the contract would revert.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// What the contract would return, as `0x` text.
    #[schema(value_type = Option<schema::Bytes>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    /// Seconds after which to try again; the header `Retry-After` again.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
    /// The node that holds the lane; the header `Stile-Owner-Url` again.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner_url: Option<String>,
}

impl ProblemBody {
    pub(crate) fn status(&self) -> u16 {
        self.status
    }
}

/// What every call may answer besides what was asked for, for the OpenAPI document.
pub(crate) struct Problems;

impl IntoResponses for Problems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        let answer = |status: &str| (status.to_owned(), RefOr::T(answer("See the code")));
        ["4XX", "5XX"].map(answer).into()
    }
}

/// A problem document as an answer, for the OpenAPI document.
pub(crate) fn answer(description: impl Into<String>) -> openapi::Response {
    let schema = openapi::Ref::from_schema_name("Problem");
    let content = openapi::ContentBuilder::new().schema(Some(schema)).build();
    openapi::ResponseBuilder::new()
        .description(description)
        .content("application/problem+json", content)
        .build()
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
                tx_id: None,
                least: None,
                most: None,
                balance: None,
                queued: None,
                reason: None,
                data: None,
                retry_after: None,
                owner_url: None,
            }),
            status: code.status(),
        }
    }

    /// A bad field.
    pub fn field(field: impl Into<String>, detail: impl Into<String>) -> Self {
        let (field, detail) = (field.into(), detail.into());
        let mut problem = Self::new(Code::InvalidField, format!("{field}: {detail}"));
        problem.body.errors.push(FieldError { field, detail });
        problem
    }

    /// The code as clients see it.
    #[cfg(test)]
    pub(crate) fn code(&self) -> &'static str {
        self.body.code
    }

    /// A payload that no chain would take.
    pub(crate) fn payload(error: PayloadError) -> Self {
        Self::field(format!("payload.{}", error.field), error.why)
    }

    /// The problem of a part of the body: its fields are named from the whole body's point of view.
    pub(crate) fn within(mut self, part: &str) -> Self {
        for error in &mut self.body.errors {
            error.field = match error.field.as_str() {
                "body" => part.to_owned(),
                field => format!("{part}.{field}"),
            };
            self.body.detail = format!("{}: {}", error.field, error.detail);
        }
        self
    }

    /// Names the transaction that it is about.
    pub(crate) fn about(mut self, tx: TxId) -> Self {
        self.body.tx_id = Some(tx.0);
        self
    }

    /// Names the number that would have been enough.
    fn at_least(mut self, least: impl ToString) -> Self {
        self.body.least = Some(least.to_string());
        self
    }

    /// Names the number that would not have been too much.
    fn at_most(mut self, most: impl ToString) -> Self {
        self.body.most = Some(most.to_string());
        self
    }

    /// The document alone.
    pub(crate) fn into_body(self) -> Box<ProblemBody> {
        self.body
    }

    pub(crate) fn retry_after(mut self, wait: Option<Duration>) -> Self {
        self.body.retry_after = wait.map(|wait| wait.as_secs_f64().ceil() as u64);
        self
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        NonceError::from(error).into()
    }
}

impl From<TxError> for Problem {
    fn from(error: TxError) -> Self {
        let detail = error.to_string();
        match error {
            TxError::NoKey { .. } => Self::new(Code::NoKey, detail),
            TxError::NoChain { .. } => Self::new(Code::NoEndpoints, detail),
            TxError::FeeLimit { reached, .. } => {
                Self::new(Code::FeeLimit, detail).at_most(reached.limit)
            }
            TxError::GasLimit(reached) => {
                Self::new(Code::GasLimit, detail).at_most(reached.limit())
            }
            TxError::GasBelowIntrinsic(low) => {
                Self::new(Code::GasBelowIntrinsic, detail).at_least(low.least)
            }
            TxError::InsufficientFunds(low) => {
                let mut problem = Self::new(Code::InsufficientFunds, detail).at_least(low.needed());
                problem.body.balance = Some(low.balance.to_string());
                problem.body.queued = Some(low.queued.to_string());
                problem
            }
            TxError::FinalityUnavailable { .. } => Self::new(Code::FinalityUnavailable, detail),
            TxError::Payload(error) => Self::payload(error),
            TxError::EstimationReverted { reason, data } => {
                let mut problem = Self::new(Code::EstimationReverted, detail);
                (problem.body.reason, problem.body.data) = (Some(reason), data);
                problem
            }
            TxError::EstimationFailed(_) => Self::new(Code::EstimationFailed, detail),
            TxError::RequestIdReused { tx } => {
                Self::new(Code::RequestIdReused, detail).about(tx.id)
            }
            TxError::Lane(error) => error.into(),
        }
    }
}

impl From<NonceError> for Problem {
    fn from(error: NonceError) -> Self {
        let (code, owner, hold) = match &error {
            NonceError::NotHolder { owner, .. } => (Code::NotHolder, Some(owner), None),
            NonceError::Fenced { owner, .. } => (Code::Fenced, Some(owner), None),
            NonceError::LanePaused { .. } => (Code::LanePaused, None, None),
            NonceError::LaneNotOwned { .. } => (Code::LaneNotOwned, None, None),
            NonceError::QueueFull => (Code::QueueFull, None, None),
            NonceError::ShuttingDown => (Code::ShuttingDown, None, None),
            NonceError::StoreUnavailable(_) => (Code::StoreUnavailable, None, None),
            NonceError::ChainUnavailable { .. } => (Code::ChainUnavailable, None, None),
            NonceError::Unaligned { .. } | NonceError::Uncompared { .. } => {
                (Code::LaneUnaligned, None, None)
            }
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
        problem.body.owner_url = owner.and_then(|owner| owner.url.clone());
        problem.body.hold = hold.map(|hold| HoldView::from(hold.as_ref()));
        problem.retry_after(error.retry_after())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let owner_url = self.body.owner_url.as_deref().map(HeaderValue::try_from);
        let retry_after = self.body.retry_after.map(HeaderValue::from);
        let mut response = (self.status, axum::Json(self.body)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, seconds);
        }
        if let Some(Ok(url)) = owner_url {
            headers.insert("stile-owner-url", url);
        }
        response
    }
}
