//! Certificates of an authority of a test's own, that nobody knows unless told.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::scratch;

const AUTHORITY: &str = "authority.pem";

/// An authority, and a directory for what it has certified.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    files: TempDir,
}

impl Authority {
    /// A new one.
    ///
    /// Panics if a file cannot be written.
    pub fn new() -> Self {
        let files = scratch::directory("tls");
        let mut about = CertificateParams::new(Vec::new()).unwrap();
        about.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let itself = about.self_signed(&key).unwrap();
        std::fs::write(files.path().join(AUTHORITY), itself.pem()).unwrap();
        Self { issuer: Issuer::new(about, key), files }
    }

    /// A file with its own certificate.
    pub fn file(&self) -> PathBuf {
        self.files.path().join(AUTHORITY)
    }

    /// A certificate for servers and callers of these names, and its key, which only its owner can
    /// read: `NAME.pem` and `NAME.key`. Files that are there already are replaced.
    pub fn certify(&self, name: &str, hosts: &[&str]) -> Certified {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut about = CertificateParams::new(hosts).unwrap();
        about.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = about.signed_by(&key, &self.issuer).unwrap();
        let files = Certified {
            certificate: self.files.path().join(format!("{name}.pem")),
            key: self.files.path().join(format!("{name}.key")),
        };
        std::fs::write(&files.certificate, certificate.pem()).unwrap();
        write_private(&files.key, &key.serialize_pem());
        files
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

/// The files of a certificate.
#[derive(Debug, Clone)]
pub struct Certified {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl Certified {
    /// Both, one after the other.
    ///
    /// Panics if a file cannot be read.
    pub fn pem(&self) -> Vec<u8> {
        [&self.certificate, &self.key].map(|file| std::fs::read(file).unwrap()).concat()
    }
}

fn write_private(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}
