//! A text that nobody is shown.

use std::fmt;
use std::hash::{Hash, Hasher};

use zeroize::Zeroizing;

/// A password, a private key, a URL with either in it: whatever must be in no log, no answer and no
/// debug output. One type for all of them, from the configuration to whoever uses it. It is wiped
/// from memory when it is dropped, and only [`Secret::reveal`] gives it away.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes a text. Where it was before is for the caller to wipe.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The secret itself: to be used, never to be printed.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Without the line end that most editors leave behind a text in a file.
    #[must_use]
    pub fn without_line_end(&self) -> Self {
        Self::new(self.0.trim_end_matches(['\r', '\n']))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl Hash for Secret {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.reveal().hash(state);
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_it_is_shown() {
        let secret = Secret::new("canary\r\n");
        assert_eq!(
            format!("{secret:?} {:?} {:#?}", Some(&secret), [&secret]).matches("canary").count(),
            0
        );
        assert_eq!(secret.without_line_end().reveal(), "canary");
        assert_eq!(secret.reveal(), "canary\r\n");
    }
}
