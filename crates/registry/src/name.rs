//! Names that become parts of keys, URLs and job ids.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A name longer than this is a mistake.
const LONGEST: usize = 200;

/// A name that cannot be one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} cannot be the name of a {what}: give 1 to {LONGEST} letters, digits and any of {allowed}"
)]
pub struct InvalidName {
    what: &'static str,
    text: String,
    allowed: &'static str,
}

/// Letters and digits of ASCII and what else was allowed: nothing that ends a hash tag (`}`), a
/// segment of a URL (`/`) or the front of a job id (`@`).
fn check(what: &'static str, text: &str, allowed: &'static str) -> Result<(), InvalidName> {
    let fits = |c: char| c.is_ascii_alphanumeric() || (c != ' ' && allowed.contains(c));
    if !text.is_empty() && text.len() <= LONGEST && text.chars().all(fits) {
        return Ok(());
    }
    Err(InvalidName { what, text: text.chars().take(LONGEST).collect(), allowed })
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $allowed:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks the text and keeps it.
            pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidName> {
                let text = text.as_ref();
                check($what, text, $allowed)?;
                Ok(Self(text.into()))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidName;
            fn from_str(text: &str) -> Result<Self, InvalidName> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidName;
            fn try_from(text: String) -> Result<Self, InvalidName> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.as_ref().to_owned()
            }
        }
    };
}

name! {
    /// The name of a node, the same over all its starts.
    NodeId, "node", ". _ - :"
}
name! {
    /// The name of a pool of nodes.
    PoolId, "pool", ". _ - :"
}
name! {
    /// The name of a service that nodes offer, or of something that a service is offered for, such
    /// as a language.
    ServiceName, "service", ". _ -"
}
name! {
    /// The name of a configuration.
    ConfigName, "configuration", ". _ - :"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_keys_and_urls_whole() {
        for good in ["stile-a", "host.example:7420", "node_1", "A"] {
            assert_eq!(NodeId::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "a b", "a}b", "{a", "a/b", "a@b", "ä", &"x".repeat(LONGEST + 1)] {
            assert!(NodeId::new(bad).is_err(), "{bad}");
        }
        assert!(ServiceName::new("asr:zh").is_err(), "the colon is between service and language");
    }

    #[test]
    fn a_bad_name_does_not_come_in_by_json() {
        let error = serde_json::from_str::<PoolId>(r#""a/b""#).unwrap_err().to_string();
        assert!(error.contains("cannot be the name of a pool"), "{error}");
    }
}
