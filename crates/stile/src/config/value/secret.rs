//! Secrets, which the configuration only ever points at.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize, Serializer};

/// Where a secret is kept: `env:NAME` or `file:PATH`.
///
/// The configuration never holds the secret itself, so it can be shown, logged and committed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SecretReference {
    /// The environment variable of this name.
    Environment(String),
    /// The file at this path; a relative one starts at the working directory.
    File(PathBuf),
}

/// The text is not a reference. It may well be the secret itself, so it is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be \"env:NAME\" or \"file:PATH\": \
     secrets are given by reference, never written into the configuration"
)]
pub struct NotASecretReference;

impl FromStr for SecretReference {
    type Err = NotASecretReference;

    fn from_str(text: &str) -> Result<Self, NotASecretReference> {
        match text.split_once(':') {
            Some(("env", name)) if is_variable_name(name) => Ok(Self::Environment(name.to_owned())),
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(PathBuf::from(path))),
            _ => Err(NotASecretReference),
        }
    }
}

/// Refusing odd names catches a key pasted behind `env:`, which would otherwise be shown as a name.
fn is_variable_name(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    name.bytes().next().is_some_and(letter)
        && name.bytes().all(|byte| letter(byte) || byte.is_ascii_digit())
}

impl fmt::Display for SecretReference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment(name) => write!(formatter, "env:{name}"),
            Self::File(path) => write!(formatter, "file:{}", path.display()),
        }
    }
}

impl Serialize for SecretReference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SecretReference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::SecretReference;

    #[test]
    fn reads_and_shows_both_kinds() {
        for text in ["env:STILE_KEY", "file:/run/secrets/key", "file:key.txt"] {
            let reference: SecretReference = text.parse().expect("a reference");
            assert_eq!(reference.to_string(), text);
        }
    }

    #[test]
    fn refuses_everything_else_without_repeating_it() {
        for text in
            ["", "env:", "file:", "hunter2", "0xac0974be", "env:0xac0974be", "env:A B", "vault:key"]
        {
            let error = text.parse::<SecretReference>().expect_err(text);
            assert!(
                text.is_empty() || text.ends_with(':') || !error.to_string().contains(text),
                "{text}"
            );
        }
    }
}
