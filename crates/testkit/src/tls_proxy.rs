//! A TCP proxy that speaks TLS before a server that does not.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::certificates::{Authority, Certified};

/// Speaks TLS as 127.0.0.1, with a certificate from an authority of its own that nobody knows unless
/// told.
#[derive(Debug)]
pub struct TlsProxy {
    address: SocketAddr,
    authority: Authority,
    target: Arc<Mutex<Option<SocketAddr>>>,
    task: JoinHandle<()>,
}

impl TlsProxy {
    /// Listens on a port of its own; leads nowhere yet.
    pub async fn start() -> Self {
        let authority = Authority::new();
        let Certified { certificate, key } = authority.certify("proxy", &["127.0.0.1"]);
        let certificate = CertificateDer::from_pem_file(certificate).expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(key).expect("a key");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions of TLS")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("a certificate and its key");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("listen");
        let address = listener.local_addr().expect("an address");
        let target: Arc<Mutex<Option<SocketAddr>>> = Arc::default();
        let leads_to = Arc::clone(&target);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, target) = (acceptor.clone(), *leads_to.lock().unwrap());
                tokio::spawn(async move {
                    let mut stream = acceptor.accept(stream).await?;
                    let target = target.ok_or(std::io::ErrorKind::ConnectionRefused)?;
                    let mut server = TcpStream::connect(target).await?;
                    tokio::io::copy_bidirectional(&mut stream, &mut server).await
                });
            }
        });
        Self { address, authority, target, task }
    }

    /// Where the server is.
    pub fn lead_to(&self, server: SocketAddr) {
        *self.target.lock().unwrap() = Some(server);
    }

    /// `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// A file with the certificate of the authority.
    pub fn authority(&self) -> PathBuf {
        self.authority.file()
    }
}

impl Drop for TlsProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}
