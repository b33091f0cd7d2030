//! Calls for lanes that another node holds.
//!
//! A call is passed on once: it says so in a header, and whoever gets such a call answers it, well
//! or badly, and never passes it on again. So there are no loops, whatever the nodes believe of
//! each other. Only nodes may say so: they sign it by the cluster's secret, or all of it is on one
//! machine and open to everybody there.
//!
//! Neither the secret nor a caller's token goes from one node to another. A call goes only to a node
//! that the database knows, by TLS or on the same machine unless the network is declared to be
//! trusted. Whether an answer is that node's is known by TLS alone: answers are not signed.
//!
//! | file | what is in it |
//! |---|---|
//! | `original` | a call as it came, so that it can be passed on unchanged |
//! | `elsewhere` | when a call is passed on, taken here or refused |
//! | `way` | which way it may go |
//! | `forward` | passing it on |
//! | `secret` | what nodes know each other by |
//! | `pass` | what a call that is passed on carries, and what proves it |
//! | `replays` | calls that were taken already |
//! | `hop` | taking it in at the other end |
//! | `seldom` | warnings about other nodes, once a minute |

mod elsewhere;
mod forward;
mod hop;
mod original;
mod pass;
mod replays;
mod secret;
mod seldom;
mod way;

use std::fmt;

pub(crate) use forward::{Forwarder, Peer};
pub(crate) use hop::{Behalf, Came, Hop, unknown_neighbour};
pub(crate) use original::{Original, Whole};
pub use secret::{ClusterSecret, WeakSecret};
pub use way::is_private_way;

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
    /// Whose certificates the other nodes have; `None` for those that the system believes.
    pub authorities: Option<Authorities>,
    /// What this node shows to others that ask callers for a certificate.
    pub identity: Option<NodeIdentity>,
    /// Whether calls may go to other machines without TLS: nobody else is on the network.
    pub trusted_network: bool,
}

/// Certificates of the authorities that sign those of the nodes.
#[derive(Clone)]
pub struct Authorities(Vec<reqwest::Certificate>);

/// A text that has no certificates that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("has no certificates in PEM that can be used: {0}")]
pub struct NotCertificates(String);

impl Authorities {
    /// Reads one certificate or several, in PEM.
    pub fn from_pem(pem: &[u8]) -> Result<Self, NotCertificates> {
        let said = |error: reqwest::Error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            NotCertificates(cause.unwrap_or_else(|| error.to_string()))
        };
        let certificates = reqwest::Certificate::from_pem_bundle(pem).map_err(said)?;
        if certificates.is_empty() {
            return Err(NotCertificates("there is none in it".into()));
        }
        // What is in them is looked at when a client is made.
        let client = reqwest::Client::builder().tls_certs_only(certificates.clone());
        client.build().map_err(said)?;
        Ok(Self(certificates))
    }
}

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authorities({})", self.0.len())
    }
}

/// A certificate with its private key, which a node shows to other nodes.
#[derive(Clone)]
pub struct NodeIdentity(reqwest::Identity);

/// A text that has no certificate with a private key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("has no certificate with its private key, both as PEM")]
pub struct NotAnIdentity;

impl NodeIdentity {
    /// Reads a certificate and its private key from one PEM.
    pub fn from_pem(pem: &[u8]) -> Result<Self, NotAnIdentity> {
        reqwest::Identity::from_pem(pem).map(Self).map_err(|_| NotAnIdentity)
    }
}

impl fmt::Debug for NodeIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeIdentity")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_is_refused() {
        let junk = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for text in ["", "hello", junk] {
            let error = Authorities::from_pem(text.as_bytes()).unwrap_err();
            assert!(error.to_string().contains("PEM"), "{error}");
            assert_eq!(NodeIdentity::from_pem(text.as_bytes()).unwrap_err(), NotAnIdentity);
        }
    }
}
