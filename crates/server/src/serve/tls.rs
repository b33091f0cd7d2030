//! TLS: the files, read anew when they change.
//!
//! Certificates are renewed while a server runs. Files are looked at every few seconds; new ones are
//! used for new connections once all of them fit together. Until then, and if they never do, the old
//! ones go on, and the log says why.

use std::fmt::Write as _;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, crypto};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::options::TlsFiles;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Why TLS cannot be spoken with these files.
#[derive(Debug, thiserror::Error)]
#[error("server.tls: {0}")]
pub struct TlsError(String);

/// What a caller speaks inside TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

impl TlsFiles {
    /// Whether a server could start with them: they can be read and go together.
    pub fn check(&self) -> Result<(), TlsError> {
        Content::read(self)?.config(self).map(drop)
    }
}

/// Certificate and key of a server.
#[derive(Debug)]
pub(super) struct Tls {
    files: TlsFiles,
    /// What the first configuration was made of.
    loaded: Content,
    config: ArcSwap<ServerConfig>,
}

/// What was in the files. The key is in here, so it is compared and not shown.
#[derive(Clone, PartialEq, Eq)]
struct Content {
    cert: Vec<u8>,
    key: zeroize::Zeroizing<Vec<u8>>,
    key_mode: u32,
    client_ca: Option<Vec<u8>>,
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Content").finish_non_exhaustive()
    }
}

impl Content {
    fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let unread = |path: &Path, why: &dyn std::fmt::Display| {
            TlsError(format!("{} cannot be read: {why}", path.display()))
        };
        let mode = |path: &Path| {
            let found = std::fs::metadata(path).map_err(|e| unread(path, &e))?;
            // To open a pipe would take until somebody writes to it.
            found.is_file().then(|| found.mode()).ok_or_else(|| unread(path, &"it is no file"))
        };
        let bytes = |path: &Path| {
            mode(path)?;
            std::fs::read(path).map_err(|e| unread(path, &e))
        };
        Ok(Self {
            cert: bytes(&files.cert)?,
            key_mode: mode(&files.key)? & 0o777,
            key: bytes(&files.key)?.into(),
            client_ca: files.client_ca.as_deref().map(bytes).transpose()?,
        })
    }

    /// Refuses a key that more can get at than the one of the start, which was looked at then.
    fn check_mode(&self, files: &TlsFiles, first: &Self) -> Result<(), TlsError> {
        if self.key_mode & 0o077 & !first.key_mode == 0 {
            return Ok(());
        }
        let (mode, path) = (self.key_mode, files.key.display());
        Err(TlsError(format!(
            "others can get at {path} (its mode is {mode:04o}): run chmod {:o} {path}",
            mode & first.key_mode
        )))
    }

    fn config(&self, files: &TlsFiles) -> Result<ServerConfig, TlsError> {
        let certs = certificates(&files.cert, &self.cert)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|e| bad(&files.key, "has no private key", &e))?;
        let provider = Arc::new(crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder =
            builder.with_safe_default_protocol_versions().map_err(|e| TlsError(e.to_string()))?;
        let builder = match (&files.client_ca, &self.client_ca) {
            (Some(path), Some(bytes)) => {
                let mut roots = RootCertStore::empty();
                for root in certificates(path, bytes)? {
                    roots.add(root).map_err(|e| TlsError(format!("{}: {e}", path.display())))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
                let verifier = verifier.build().map_err(|e| TlsError(e.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
            _ => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(certs, key).map_err(|e| {
            let (cert, key) = (files.cert.display(), files.key.display());
            TlsError(format!("{cert} and {key} do not go together: {e}"))
        })?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn certificates(path: &Path, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    let found = found.map_err(|e| bad(path, "is not PEM", &e))?;
    if found.is_empty() {
        return Err(TlsError(format!("{} has no certificate", path.display())));
    }
    Ok(found)
}

/// Of an error only the kind is shown: some repeat a line of the file.
fn bad(path: &Path, what: &str, error: &pem::Error) -> TlsError {
    let mut text = format!("{} {what}", path.display());
    if let pem::Error::Io(error) = error {
        let _ = write!(text, ": {error}");
    }
    TlsError(text)
}

impl Tls {
    /// Reads the files.
    pub(super) fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let loaded = Content::read(&files)?;
        let config = ArcSwap::from_pointee(loaded.clone().config(&files)?);
        Ok(Self { files, loaded, config })
    }

    /// Agrees on TLS with a caller.
    pub(super) async fn accept(
        &self,
        stream: TcpStream,
    ) -> io::Result<(TlsStream<TcpStream>, Protocol)> {
        let stream = TlsAcceptor::from(self.config.load_full()).accept(stream).await?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok((stream, if is_http2 { Protocol::Http2 } else { Protocol::Http1 }))
    }

    /// Reads the files when they change, for ever.
    pub(super) async fn keep_fresh(&self) {
        let mut known = Some(self.loaded.clone());
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let files = self.files.clone();
            let read = tokio::task::spawn_blocking(move || Content::read(&files)).await;
            let Ok(read) = read else { continue };
            let content = read.as_ref().ok().cloned();
            if content == known {
                continue;
            }
            let taken = read.and_then(|content| {
                content.check_mode(&self.files, &self.loaded)?;
                content.config(&self.files)
            });
            match taken {
                Ok(config) => {
                    self.config.store(Arc::new(config));
                    tracing::info!("the certificate was read anew");
                }
                Err(error) => {
                    tracing::warn!(%error, "the certificate is not read anew; the old one goes on");
                }
            }
            known = content;
        }
    }
}
