//! URLs to connect to, which often carry credentials.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use stile_domain::Secret;

use super::mask::mask;

/// A URL of a store, a chain endpoint or another server.
///
/// Only [`ConnectionUrl::as_str`] gives it in full. Showing, debugging and serialising it all mask
/// the credentials, so that a stray log line leaks nothing. One made by `From` is not checked; one
/// in a loaded configuration is.
#[derive(Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "String")]
pub struct ConnectionUrl(Secret);

impl ConnectionUrl {
    /// The URL in full, credentials included: for connecting, never for printing.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.reveal()
    }

    /// The URL in full, for whoever connects.
    #[must_use]
    pub fn secret(&self) -> &Secret {
        &self.0
    }

    /// What stands before `://`.
    #[must_use]
    pub fn scheme(&self) -> &str {
        self.as_str().split_once("://").map_or("", |(scheme, _)| scheme)
    }
}

impl From<&str> for ConnectionUrl {
    fn from(url: &str) -> Self {
        Self(url.into())
    }
}

impl From<String> for ConnectionUrl {
    fn from(url: String) -> Self {
        Self(url.into())
    }
}

impl fmt::Display for ConnectionUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&mask(self.as_str()))
    }
}

impl fmt::Debug for ConnectionUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ConnectionUrl({:?})", mask(self.as_str()))
    }
}

impl Serialize for ConnectionUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Whether `text` is one of the schemes, `://` and something to connect to.
///
/// On failure says what is wrong without repeating the text: a mistyped URL may hold a password.
pub(super) fn check_url(text: &str, schemes: &[&str]) -> Result<(), &'static str> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err("; this has no ://");
    };
    if !schemes.contains(&scheme) {
        return Err("; this begins otherwise");
    }
    if rest.is_empty()
        || rest.starts_with(['?', '#'])
        || (scheme != "sqlite" && rest.starts_with('/'))
    {
        return Err("; here nothing to connect to follows the ://");
    }
    if text.contains(|character: char| character.is_whitespace() || character.is_control()) {
        return Err("; this has a space in it");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{ConnectionUrl, check_url};

    #[test]
    fn wants_a_known_scheme_and_a_place() {
        let schemes = ["sqlite", "postgres"];
        for good in ["sqlite://stile.db", "sqlite:///var/lib/stile.db", "postgres://user@host/db"] {
            assert_eq!(check_url(good, &schemes), Ok(()), "{good}");
        }
        for bad in [
            "",
            "stile.db",
            "sqlite:",
            "sqlite://",
            "mysql://host",
            "postgres:///db",
            "postgres://a b",
        ] {
            assert!(check_url(bad, &schemes).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_as_str_shows_the_password() {
        let url = ConnectionUrl::from("postgres://user:hunter2@host/db");
        assert_eq!(url.as_str(), "postgres://user:hunter2@host/db");
        assert_eq!(url.to_string(), "postgres://user:***@host/db");
        assert_eq!(format!("{url:?}"), r#"ConnectionUrl("postgres://user:***@host/db")"#);
        assert_eq!(url.scheme(), "postgres");
    }
}
