//! Errors and their codes.

use alloy::sol_types::{Panic, Revert, SolError};
use alloy_primitives::{Bytes, hex};
use serde::Serialize;
use serde_json::Value;

use crate::chain::call::CallFailure;
use crate::node::{NoReorg, Unwritten};
use crate::pool::Refusal;

/// The `error` of an answer.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<Value>,
}

impl RpcError {
    fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// What came is not JSON.
    pub(crate) fn parse(reason: impl std::fmt::Display) -> Self {
        Self::new(-32700, format!("parse error: {reason}"))
    }

    /// What came is no request.
    pub(crate) fn invalid_request(reason: &str) -> Self {
        Self::new(-32600, format!("invalid request: {reason}"))
    }

    /// There is no such method.
    pub(crate) fn no_method(method: &str) -> Self {
        Self::new(-32601, format!("the method {method} does not exist/is not available"))
    }

    /// The parameters are not what the method takes.
    pub(crate) fn params(reason: impl Into<String>) -> Self {
        Self::new(-32602, reason)
    }

    /// It cannot be done.
    pub(crate) fn refused(reason: impl Into<String>) -> Self {
        Self::new(-32000, reason)
    }

    /// It should have worked.
    pub(crate) fn internal(reason: impl std::fmt::Display) -> Self {
        Self::new(-32603, format!("internal error: {reason}"))
    }

    /// There is no such block, or none yet.
    pub(crate) fn no_block() -> Self {
        Self::refused("header not found")
    }
}

impl From<Refusal> for RpcError {
    fn from(refusal: Refusal) -> Self {
        Self::refused(refusal.to_string())
    }
}

impl From<Unwritten> for RpcError {
    fn from(unwritten: Unwritten) -> Self {
        Self::internal(unwritten)
    }
}

impl From<NoReorg> for RpcError {
    fn from(reason: NoReorg) -> Self {
        match reason {
            NoReorg::TooDeep { .. } => Self::params(reason.to_string()),
            NoReorg::Unwritten(unwritten) => unwritten.into(),
        }
    }
}

impl From<CallFailure> for RpcError {
    fn from(failure: CallFailure) -> Self {
        match failure {
            CallFailure::Reverted(data) => Self {
                code: 3,
                message: match reason(&data) {
                    Some(reason) => format!("execution reverted: {reason}"),
                    None => "execution reverted".to_owned(),
                },
                data: Some(Value::from(hex::encode_prefixed(&data))),
            },
            CallFailure::Failed(reason) => Self::refused(reason),
        }
    }
}

/// What the code said, if it said it in one of the usual ways.
fn reason(data: &Bytes) -> Option<String> {
    if let Ok(revert) = Revert::abi_decode(data) {
        return Some(revert.reason);
    }
    let panic = Panic::abi_decode(data).ok()?;
    let kind = panic.kind().map_or("unknown panic code", |kind| kind.as_str());
    Some(format!("panic: {kind} (0x{:02x})", panic.code))
}
