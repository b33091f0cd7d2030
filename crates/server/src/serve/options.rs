//! What a server is told beside what it serves.

use std::path::PathBuf;
use std::time::Duration;

/// How a server listens, and to whom.
#[derive(Debug, Clone, Default)]
pub struct ServeOptions {
    /// Further names that it is called by.
    pub hosts: Vec<String>,
    /// Where other nodes call it.
    pub advertised: Option<String>,
    /// What it speaks TLS with; `None` for plain HTTP.
    pub tls: Option<TlsFiles>,
    /// What callers may take.
    pub limits: Limits,
}

/// The files that TLS needs, as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and those that lead to its root.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Who signs the certificates of callers; `None` if they need none.
    pub client_ca: Option<PathBuf>,
}

/// What callers may take. Defaults are those of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long the head of a call may take to come, and TLS to be agreed on.
    pub headers: Duration,
    /// How long a body may take to come.
    pub body: Duration,
    /// How long a connection may have nothing to do, or take nothing of what is sent.
    pub idle: Duration,
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

impl Default for Limits {
    fn default() -> Self {
        Self {
            headers: Duration::from_secs(10),
            body: Duration::from_secs(30),
            idle: Duration::from_secs(120),
            connections: 8_192,
            connections_per_address: 4_096,
            streams_per_key: 2_000,
            calls_per_key: 0,
            calls_per_address: 0,
            wrong_keys_per_address: 10,
        }
    }
}
