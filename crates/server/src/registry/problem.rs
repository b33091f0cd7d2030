//! The registry's errors as problem documents.

use stile_registry::RegistryError;

use crate::code::Code;
use crate::problem::Problem;

impl From<RegistryError> for Problem {
    fn from(error: RegistryError) -> Self {
        let code = match &error {
            // Names are read before the registry is asked; these say which one it is.
            RegistryError::InvalidName(_) => return Self::field("name", error.to_string()),
            RegistryError::InvalidJobId(_) => return Self::field("jobId", error.to_string()),
            RegistryError::UnknownNode { .. } => Code::NodeUnknown,
            RegistryError::Removed { .. } => Code::NodeRemoved,
            RegistryError::Stale { .. } => Code::NodeStale,
            RegistryError::Full { .. } => Code::NodesFull,
            RegistryError::JobOver { .. } => Code::JobOver,
            RegistryError::ConfigConflict { .. } => Code::ConfigConflict,
            RegistryError::Unavailable { .. } => Code::RegistryAway,
        };
        Self::new(code, error.to_string()).retry_after(error.retry_after())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::http::StatusCode;
    use axum::response::IntoResponse;
    use stile_registry::{LeftOut, Mode, NodeId};

    use super::*;

    #[test]
    fn what_may_pass_says_when_to_come_back() {
        let full = RegistryError::Full { tried: 3, left_out: LeftOut::default() };
        let away = RegistryError::Unavailable {
            operation: "reserve a slot",
            mode: Mode::LocalOnly,
            reason: "it is gone".into(),
        };
        for (error, status) in
            [(full, StatusCode::TOO_MANY_REQUESTS), (away, StatusCode::SERVICE_UNAVAILABLE)]
        {
            assert!(error.retry_after() >= Some(Duration::from_secs(1)));
            let response = Problem::from(error).into_response();
            assert_eq!(response.status(), status);
            assert!(response.headers().contains_key("retry-after"));
        }
    }

    #[test]
    fn codes_are_those_of_the_registry() {
        let node = NodeId::new("n").unwrap();
        let error = RegistryError::UnknownNode { node };
        assert_eq!(error.code(), Code::NodeUnknown.text());
        for code in [
            Code::NodeRemoved,
            Code::NodeStale,
            Code::NodesFull,
            Code::JobOver,
            Code::ConfigConflict,
            Code::RegistryAway,
        ] {
            assert!(
                [
                    "node-removed",
                    "node-stale",
                    "nodes-full",
                    "job-over",
                    "config-conflict",
                    "registry-away"
                ]
                .contains(&code.text())
            );
        }
    }
}
