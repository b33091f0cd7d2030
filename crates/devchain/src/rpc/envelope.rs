//! Requests and answers, alone and in batches.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::error::RpcError;
use super::params::Params;

/// A request: what is asked, and under what name the answer is expected.
#[derive(Debug)]
pub(crate) struct Request {
    /// `None` if no answer is wanted.
    pub(crate) id: Option<Value>,
    pub(crate) method: String,
    pub(crate) params: Result<Params, RpcError>,
}

/// The answer to a request.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    jsonrpc: &'static str,
    id: Value,
    #[serde(flatten)]
    outcome: Outcome,
    /// How late it is to be given.
    #[serde(skip)]
    pub(crate) delay: Duration,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Result(Box<RawValue>),
    Error(RpcError),
    /// An error that is made up, whatever it looks like.
    #[serde(rename = "error")]
    Lie(Value),
}

impl Answer {
    /// The answer to the request with this id.
    pub(crate) fn new(id: Value, outcome: Result<Box<RawValue>, RpcError>) -> Self {
        let outcome = match outcome {
            Ok(result) => Outcome::Result(result),
            Err(error) => Outcome::Error(error),
        };
        Self { jsonrpc: "2.0", id, outcome, delay: Duration::ZERO }
    }

    /// An error that is made up.
    pub(crate) fn lie(id: Value, error: Value) -> Self {
        Self { jsonrpc: "2.0", id, outcome: Outcome::Lie(error), delay: Duration::ZERO }
    }
}

impl Request {
    /// Reads a request; what is none has an answer already.
    pub(crate) fn read(value: Value) -> Result<Self, Box<Answer>> {
        let Value::Object(mut object) = value else {
            let error = RpcError::invalid_request("not an object");
            return Err(Box::new(Answer::new(Value::Null, Err(error))));
        };
        let id = object.remove("id");
        let refuse = |reason: &str| {
            let id = id.clone().unwrap_or_default();
            Box::new(Answer::new(id, Err(RpcError::invalid_request(reason))))
        };
        if matches!(id, Some(Value::Object(_) | Value::Array(_) | Value::Bool(_))) {
            return Err(refuse("the id is neither a text nor a number"));
        }
        if object.get("jsonrpc").is_some_and(|version| version != "2.0") {
            return Err(refuse("jsonrpc is not 2.0"));
        }
        let Some(Value::String(method)) = object.remove("method") else {
            return Err(refuse("no method"));
        };
        Ok(Self { id, method, params: Params::new(object.remove("params")) })
    }
}
