//! The HTTP server: where it listens, what it is called, TLS, and what callers may take.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::config::value::HumanDuration;

/// `[server]`: the HTTP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Further names that it is called by.
    pub hosts: Vec<String>,
    /// Whether every call needs an API key from the first moment, before there is any.
    pub require_key: bool,
    /// How long queued work may take to finish after the first signal to stop.
    pub shutdown_grace: HumanDuration,
    /// What it speaks TLS with.
    pub tls: ServerTls,
    /// What callers may take.
    pub limits: ServerLimits,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7420)),
            hosts: Vec::new(),
            require_key: false,
            shutdown_grace: HumanDuration::from_secs(20),
            tls: ServerTls::default(),
            limits: ServerLimits::default(),
        }
    }
}

/// `[server.tls]`: the files that TLS needs. Without any, plain HTTP is spoken.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerTls {
    /// The certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// Its private key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// Who signs the certificates of callers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<PathBuf>,
}

/// `[server.limits]`: what callers may take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerLimits {
    /// How long the head of a call may take to come.
    pub headers_timeout: HumanDuration,
    /// How long its body may take.
    pub body_timeout: HumanDuration,
    /// How long a connection may have nothing to do.
    pub idle_timeout: HumanDuration,
    /// The most connections in all.
    pub connections: usize,
    /// The most from one address.
    pub connections_per_address: usize,
    /// The most event streams and WebSockets of one key.
    pub streams_per_key: usize,
    /// Calls a second by one key; 0 for no limit.
    pub calls_per_key: u32,
    /// Calls a second from one address; 0 for no limit.
    pub calls_per_address: u32,
    /// Unknown keys from one address that are looked for in a second.
    pub wrong_keys_per_address: u32,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            headers_timeout: HumanDuration::from_secs(10),
            body_timeout: HumanDuration::from_secs(30),
            idle_timeout: HumanDuration::from_secs(120),
            connections: 8_192,
            connections_per_address: 4_096,
            streams_per_key: 2_000,
            calls_per_key: 0,
            calls_per_address: 0,
            wrong_keys_per_address: 10,
        }
    }
}
