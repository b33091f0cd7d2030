//! TLS in the process: HTTP/2, new certificates, certificates of callers.

use std::path::Path;
use std::sync::Arc;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use testkit::{Authority, Certified, eventually};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::Solo;
use crate::common::{SIGNER, StileProcess, run};

/// Connects as somebody who trusts only this authority, and has this certificate.
pub(crate) async fn connect(
    node: &StileProcess,
    authority: &Authority,
    me: Option<&Certified>,
    protocols: &[&[u8]],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.file()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider);
    let config =
        config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let mut config = match me {
        Some(me) => {
            let certificate = CertificateDer::from_pem_file(&me.certificate).unwrap();
            let key = PrivateKeyDer::from_pem_file(&me.key).unwrap();
            config.with_client_auth_cert(vec![certificate], key).unwrap()
        }
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let stream = TcpStream::connect(node.address()).await?;
    let name = ServerName::try_from("127.0.0.1").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

fn certificate_of(stream: &TlsStream<TcpStream>) -> Vec<u8> {
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

fn der(path: &Path) -> Vec<u8> {
    CertificateDer::from_pem_file(path).unwrap().to_vec()
}

/// The status that is answered over HTTP/2.
async fn over_http2(stream: TlsStream<TcpStream>, uri: &str) -> u16 {
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let shaken = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = shaken.await.unwrap();
    let connection = tokio::spawn(connection);
    let request = hyper::Request::get(uri).body(Empty::<Bytes>::new()).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    let status = answer.status().as_u16();
    answer.into_body().collect().await.unwrap();
    connection.abort();
    status
}

#[tokio::test]
async fn both_versions_of_http_are_spoken_inside_tls() {
    let authority = Authority::new();
    let certified = authority.certify("server", &["127.0.0.1"]);
    let solo = Solo::start(|options| options.tls(&authority, &certified)).await;
    let node = &solo.node;
    assert_eq!(node.allocate(SIGNER).await.nonce(), 0, "HTTP/1.1");
    let plain = reqwest::Client::builder().no_proxy().build().unwrap();
    let plain = plain.get(format!("http://{}/health/live", node.address())).send().await;
    assert!(plain.is_err(), "{plain:?}");

    let both: [&[u8]; 2] = [b"h2", b"http/1.1"];
    let signers = format!("https://{}/api/v1/signers", node.address());
    let stream = connect(node, &authority, None, &both).await.unwrap();
    assert_eq!(over_http2(stream, &signers).await, 200);
    // HTTP/2 has no Host, but the rule is the same.
    let stream = connect(node, &authority, None, &both).await.unwrap();
    assert_eq!(over_http2(stream, "https://evil.example/api/v1/signers").await, 421);

    let file = authority.file();
    let list = ["signer", "list", "--url", node.url(), "--ca", file.to_str().unwrap()];
    assert!(run(&list).await.ok().contains(SIGNER));
    let stranger = run(&list[..4]).await;
    assert!(stranger.failure().contains("--ca or STILE_CA"), "{stranger:?}");
    let plain = node.url().replace("https:", "http:");
    let plain = run(&["signer", "list", "--url", &plain]).await;
    assert!(plain.failure().contains("try https://"), "{plain:?}");
}

#[tokio::test]
async fn certificates_are_read_anew_and_bad_ones_are_not_taken() {
    let authority = Authority::new();
    let certified = authority.certify("server", &["127.0.0.1"]);
    let first = der(&certified.certificate);
    let solo = Solo::start(|options| options.tls(&authority, &certified)).await;
    let shown = async || certificate_of(&connect(&solo.node, &authority, None, &[]).await.unwrap());
    assert_eq!(shown().await, first);

    std::fs::write(&certified.certificate, "half a cert").unwrap();
    eventually("the log to say so", async || {
        solo.node.process.stderr().contains("the old one goes on").then_some(())
    })
    .await;
    assert_eq!(shown().await, first);

    // A new pair, with a key that others can read.
    authority.certify("server", &["127.0.0.1"]);
    let loose = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&certified.key, loose).unwrap();
    eventually("the log to say so", async || {
        solo.node.process.stderr().contains("its mode is 0644").then_some(())
    })
    .await;

    authority.certify("server", &["127.0.0.1"]);
    let second = der(&certified.certificate);
    assert_ne!(second, first);
    eventually("the new certificate", async || (shown().await == second).then_some(())).await;
}

#[tokio::test]
async fn callers_show_certificates_where_they_are_asked_to() {
    let (authority, others) = (Authority::new(), Authority::new());
    let server = authority.certify("server", &["127.0.0.1"]);
    let (friend, stranger) =
        (authority.certify("friend", &["f"]), others.certify("stranger", &["s"]));
    let client_ca = authority.file().display().to_string();
    let solo =
        Solo::start(|options| options.tls(&authority, &server).client_ca(&authority, &friend))
            .await;
    let status = async |me: Option<&Certified>| {
        let stream = connect(&solo.node, &authority, me, &[b"h2"]).await.ok()?;
        let uri = format!("https://{}/health/live", solo.node.address());
        // A certificate that is not taken shows with the first read.
        let task = tokio::spawn(async move { over_http2(stream, &uri).await });
        task.await.ok()
    };
    assert_eq!(status(Some(&friend)).await, Some(200));
    assert_eq!(status(Some(&stranger)).await, None);
    assert_eq!(status(None).await, None);

    let identity = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(identity.path(), friend.pem()).unwrap();
    let list = [
        "signer",
        "list",
        "--url",
        solo.node.url(),
        "--ca",
        &client_ca,
        "--identity",
        identity.path().to_str().unwrap(),
    ];
    assert!(run(&list).await.ok().contains(SIGNER));
}

#[tokio::test]
async fn a_key_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let authority = Authority::new();
    let certified = authority.certify("server", &["127.0.0.1"]);
    std::fs::set_permissions(&certified.key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("stile.db");
    let options = crate::NodeOptions::sqlite(&file, &[]).tls(&authority, &certified);
    let refused = options.refused().await;
    for part in ["server.tls.key", "its mode is 0644", "chmod 600"] {
        assert!(refused.failure().contains(part), "{part} is missing: {refused:?}");
    }
    let other = authority.certify("other", &["127.0.0.1"]);
    let mixed = Certified { certificate: certified.certificate, key: other.key };
    let refused = crate::NodeOptions::sqlite(&file, &[]).tls(&authority, &mixed).refused().await;
    assert!(refused.failure().contains("do not go together"), "{refused:?}");
}
