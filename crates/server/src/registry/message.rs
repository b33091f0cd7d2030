//! What is said over a node's connection.
//!
//! ```text
//! → { "type": "register",  "ref": "1", "node": { "id": "asr-1", … } }      as the body of PUT /nodes/{id}
//! ← { "type": "registered", "ref": "1", "node": { … } }
//! → { "type": "heartbeat", "ref": "2", "heartbeat": { … } }                as that of POST …/heartbeat
//! ← { "type": "heard",     "ref": "2", "node": { … } }
//! → { "type": "complete",  "ref": "3", "jobId": "…" }
//! ← { "type": "completed", "ref": "3", "jobId": "…" }
//! ← { "type": "problem",   "ref": "3", "problem": { … } }                  instead of any of them
//! ```

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stile_registry::{JobId, Node};

use super::body::{HeartbeatBody, NodeBody};
use crate::extract;
use crate::problem::{Problem, ProblemBody};

/// What a node says.
#[derive(Debug)]
pub(super) enum Said {
    Register(NodeBody),
    Heartbeat(HeartbeatBody),
    Complete(JobId),
}

/// How a message begins, whatever it is.
#[derive(Debug, Deserialize)]
struct Head {
    r#type: Kind,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Kind {
    Register,
    Heartbeat,
    Complete,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Register {
    #[serde(rename = "type")]
    _kind: Kind,
    #[serde(rename = "ref")]
    _name: Option<String>,
    node: NodeBody,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Beat {
    #[serde(rename = "type")]
    _kind: Kind,
    #[serde(rename = "ref")]
    _name: Option<String>,
    heartbeat: Option<HeartbeatBody>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Complete {
    #[serde(rename = "type")]
    _kind: Kind,
    #[serde(rename = "ref")]
    _name: Option<String>,
    job_id: JobId,
}

impl Said {
    /// Reads a message, first what it is and then as that, so that errors name the field.
    pub(super) fn read(text: &str) -> Result<Self, Problem> {
        let text = text.as_bytes();
        let Head { r#type } = extract::parse(text)?;
        Ok(match r#type {
            Kind::Register => Self::Register(extract::parse::<Register>(text)?.node),
            Kind::Heartbeat => {
                Self::Heartbeat(extract::parse::<Beat>(text)?.heartbeat.unwrap_or_default())
            }
            Kind::Complete => Self::Complete(extract::parse::<Complete>(text)?.job_id),
        })
    }
}

/// What it is answered.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) r#ref: Option<String>,
    #[serde(flatten)]
    pub(super) what: What,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub(super) enum What {
    Registered {
        node: Arc<Node>,
    },
    Heard {
        node: Arc<Node>,
    },
    #[serde(rename_all = "camelCase")]
    Completed {
        job_id: JobId,
    },
    Problem {
        problem: Box<ProblemBody>,
    },
}

/// The node's own name for a message, with which it is answered; also of one that cannot be read
/// otherwise.
pub(super) fn name_in(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        r#ref: Option<String>,
    }
    serde_json::from_str(text).ok().and_then(|Named { r#ref }| r#ref)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_knows_is_refused_by_name() {
        for (text, part) in [
            (r#"{"type":"register","node":{"id":"a","colour":1}}"#, "node.colour"),
            (r#"{"type":"register","node":{},"more":1}"#, "more"),
            (r#"{"type":"dance"}"#, "type"),
            (r#"{"type":"complete"}"#, "jobId"),
            (r#"{"type":"complete","jobId":"x"}"#, "jobId"),
            (r#"{"node":{}}"#, "type"),
        ] {
            let body = serde_json::to_value(Said::read(text).unwrap_err().into_body()).unwrap();
            assert_eq!(body["errors"][0]["field"], part, "{text}: {body}");
        }
    }

    #[test]
    fn answers_carry_the_name() {
        let answer = Answer {
            r#ref: Some("7".into()),
            what: What::Completed { job_id: JobId::on(stile_registry::NodeId::new("n").unwrap()) },
        };
        let json = serde_json::to_value(&answer).unwrap();
        assert_eq!((&json["type"], &json["ref"]), (&"completed".into(), &"7".into()));
        assert!(json["jobId"].is_string());
        assert_eq!(name_in(r#"{"type":"dance","ref":"7"}"#).as_deref(), Some("7"));
    }
}
