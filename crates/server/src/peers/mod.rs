//! Calls for lanes that another node holds.
//!
//! A call is passed on once: it says so in a header, and whoever gets such a call answers it, well
//! or badly, and never passes it on again. So there are no loops, whatever the nodes believe of
//! each other. Only nodes may say so: they prove it by the cluster's secret, or all of it is on one
//! machine and open to everybody there.
//!
//! | file | what is in it |
//! |---|---|
//! | `original` | a call as it came, so that it can be passed on unchanged |
//! | `forward` | passing it on |
//! | `hop` | the headers between nodes |
//! | `elsewhere` | when a call is passed on, taken here or refused |

mod elsewhere;
mod forward;
mod hop;
mod original;

use std::fmt;

pub(crate) use forward::Forwarder;
pub(crate) use hop::check;
pub(crate) use original::{Original, Whole};

/// What a node does with a call that needs a lane which another node holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NotHolder {
    /// Takes transactions for the holder, and passes on what only the holder can do.
    #[default]
    Accept,
    /// Passes everything on.
    Forward,
    /// Refuses it and names the holder.
    Reject,
}

/// How a node works together with the others.
#[derive(Debug, Clone, Default)]
pub struct ClusterOptions {
    /// What to do with calls for lanes held elsewhere.
    pub not_holder: NotHolder,
    /// What nodes prove themselves to each other by.
    pub secret: Option<ClusterSecret>,
}

/// A secret that all nodes of a cluster share.
#[derive(Clone)]
pub struct ClusterSecret(String);

/// What a shorter secret would be worth.
const SHORTEST_SECRET: usize = 16;

/// A text that cannot be a cluster's secret. It is not repeated.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("must be at least {SHORTEST_SECRET} visible ASCII characters")]
pub struct NotASecret;

impl ClusterSecret {
    /// Checks that it can be sent in a header and cannot be guessed.
    pub fn new(text: &str) -> Result<Self, NotASecret> {
        let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        if visible && text.len() >= SHORTEST_SECRET {
            Ok(Self(text.to_owned()))
        } else {
            Err(NotASecret)
        }
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether a text is the secret, in a time that says nothing about where they differ.
    pub(crate) fn is(&self, text: &[u8]) -> bool {
        let secret = self.0.as_bytes();
        let differ = secret.iter().zip(text).fold(0, |differ, (one, other)| differ | (one ^ other));
        std::hint::black_box(differ) == 0 && secret.len() == text.len()
    }
}

impl fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_only_itself() {
        let secret = ClusterSecret::new("correct-horse-battery").unwrap();
        assert!(secret.is(b"correct-horse-battery"));
        for other in
            [&b""[..], b"correct-horse-batter", b"correct-horse-battery1", b"Correct-horse-battery"]
        {
            assert!(!secret.is(other), "{other:?}");
        }
        assert!(!format!("{secret:?}").contains("horse"));
    }

    #[test]
    fn what_could_be_guessed_or_not_be_sent_is_no_secret() {
        for text in
            ["", "short", "sixteen\ncharacters", "with spaces is not fine", "ünvisible-in-ascii"]
        {
            assert!(ClusterSecret::new(text).is_err(), "{text}");
        }
    }
}
