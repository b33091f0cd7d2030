//! A server with TLS.

use std::path::{Path, PathBuf};

use super::{PORT_ATTEMPTS, Redis};
use crate::certificates::{Authority, Certified};
use crate::ports;

/// A server that also speaks TLS, as 127.0.0.1, with a certificate from an authority of its own that
/// nobody knows unless told.
#[derive(Debug)]
pub struct TlsRedis {
    server: Redis,
    port: u16,
    authority: Authority,
}

impl TlsRedis {
    /// Starts a server with these arguments and waits until it takes connections.
    ///
    /// Panics with its output if it does not come up.
    pub async fn start_with(arguments: &[&str]) -> Self {
        let authority_of_ours = Authority::new();
        let Certified { certificate, key } = authority_of_ours.certify("redis", &["127.0.0.1"]);
        let text = |path: &Path| path.display().to_string();
        let (certificate, key) = (text(&certificate), text(&key));
        let authority = text(&authority_of_ours.file());
        for _ in 0..PORT_ATTEMPTS {
            let port = ports::free_port();
            let tls_port = port.to_string();
            let tls = [
                ["--tls-port", &tls_port],
                ["--tls-cert-file", &certificate],
                ["--tls-key-file", &key],
                ["--tls-ca-cert-file", &authority],
                ["--tls-auth-clients", "no"],
            ];
            let all = [&tls.concat(), arguments].concat();
            if let Some(server) = Redis::start_on(ports::free_port(), &all).await {
                return Self { server, port, authority: authority_of_ours };
            }
        }
        panic!("no free ports for Redis with TLS in {PORT_ATTEMPTS} attempts");
    }

    /// Where it speaks TLS, without the scheme: `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The same server without TLS.
    pub fn plain(&self) -> &Redis {
        &self.server
    }

    /// A file with the certificate of the authority.
    pub fn authority(&self) -> PathBuf {
        self.authority.file()
    }
}
