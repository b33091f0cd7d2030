//! A server with TLS.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use super::{PORT_ATTEMPTS, Redis};
use crate::{ports, scratch};

/// A server that also speaks TLS, as 127.0.0.1, with a certificate from an authority of its own that
/// nobody knows unless told.
#[derive(Debug)]
pub struct TlsRedis {
    server: Redis,
    port: u16,
    files: TempDir,
}

impl TlsRedis {
    /// Starts a server with these arguments and waits until it takes connections.
    ///
    /// Panics with its output if it does not come up.
    pub async fn start_with(arguments: &[&str]) -> Self {
        let files = certified();
        let file = |name: &str| files.path().join(name).display().to_string();
        let (certificate, key, authority) = (file(CERTIFICATE), file(KEY), file(AUTHORITY));
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
                return Self { server, port, files };
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
        self.files.path().join(AUTHORITY)
    }
}

const AUTHORITY: &str = "authority.pem";
const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "key.pem";

/// An authority, and a key for 127.0.0.1 that it has certified.
fn certified() -> TempDir {
    let files = scratch::directory("tls");
    let write = |name: &str, text: &str| {
        std::fs::write(files.path().join(name), text).expect("write a certificate");
    };
    let key = || KeyPair::generate().expect("make a key");
    let about = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        CertificateParams::new(names).expect("names for a certificate")
    };

    let mut authority = about(&[]);
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = key();
    let itself = authority.self_signed(&authority_key).expect("certify the authority");
    write(AUTHORITY, &itself.pem());

    let server_key = key();
    let authority = Issuer::new(authority, authority_key);
    let server = about(&["127.0.0.1"]).signed_by(&server_key, &authority);
    write(CERTIFICATE, &server.expect("certify the server").pem());
    write(KEY, &server_key.serialize_pem());
    files
}
