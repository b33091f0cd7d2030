//! What a job needs of a node.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{InvalidName, ServiceName};

/// A service, or a service for one thing: `asr`, `asr:zh`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Requirement {
    service: ServiceName,
    what_for: Option<ServiceName>,
}

impl Requirement {
    /// The service, whatever it is for.
    pub fn service(service: ServiceName) -> Self {
        Self { service, what_for: None }
    }

    /// The service for one thing, such as a language.
    pub fn service_for(service: ServiceName, what_for: ServiceName) -> Self {
        Self { service, what_for: Some(what_for) }
    }

    /// Several, with commas in between, as in a query: `asr,nmt:zh`. An empty text asks for nothing.
    pub fn list(text: &str) -> Result<Vec<Self>, InvalidName> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        parts.map(str::parse).collect()
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what_for {
            None => write!(f, "{}", self.service),
            Some(what_for) => write!(f, "{}:{what_for}", self.service),
        }
    }
}

impl FromStr for Requirement {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        Ok(match text.split_once(':') {
            None => Self::service(ServiceName::new(text)?),
            Some((service, what_for)) => {
                Self::service_for(ServiceName::new(service)?, ServiceName::new(what_for)?)
            }
        })
    }
}

impl TryFrom<String> for Requirement {
    type Error = InvalidName;
    fn try_from(text: String) -> Result<Self, InvalidName> {
        text.parse()
    }
}

impl From<Requirement> for String {
    fn from(requirement: Requirement) -> String {
        requirement.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_read_from_a_query() {
        let list = Requirement::list("asr, nmt:zh,").unwrap();
        assert_eq!(list.iter().map(ToString::to_string).collect::<Vec<_>>(), ["asr", "nmt:zh"]);
        assert!(Requirement::list("").unwrap().is_empty());
        assert!(Requirement::list("asr:zh:cn").is_err());
    }
}
