//! Calls that pages of other sites make, and names that anybody can point here.
//!
//! The server has no keys, as on a developer's machine: whatever a page gets through is done.

use crate::Solo;
use crate::common::{Answer, Pending, SIGNER, StileProcess};
use crate::support::Backend;

const JSON: &str = "Content-Type: application/json\r\n";

fn allocate() -> String {
    format!("/api/v1/nonces/{SIGNER}/allocate")
}

/// A call under this name, with these headers.
async fn call(node: &StileProcess, host: &str, line: &str, headers: &str, body: &str) -> Answer {
    let head = format!("{line} HTTP/1.1\r\n{headers}");
    Pending::send_to(&node.address(), host, &head, body.as_bytes()).await.answer().await
}

#[track_caller]
fn refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.problem().as_str()), (status, code), "{answer:?}");
}

/// DNS rebinding: the browser takes this server for the page's own.
#[tokio::test]
async fn hole_43_a_name_that_anybody_can_point_here_is_refused() {
    let solo =
        Solo::start(|options| options.set_literal("server.hosts", "[\"stile.example\"]")).await;
    let (node, port) = (&solo.node, solo.node.port());
    for host in
        [format!("evil.example:{port}"), "evil.example".into(), "127.0.0.1.evil.example".into()]
    {
        let origin = format!("{JSON}Origin: http://{host}\r\nSec-Fetch-Site: same-origin\r\n");
        let sent = call(node, &host, &format!("POST {}", allocate()), &origin, "{}").await;
        refused(&sent, 421, "unknown-host");
        let body = sent.json();
        assert!(body["detail"].as_str().unwrap().contains("server.hosts"), "{body}");
        for path in ["/api/v1/signers", "/api/v1/events", "/", "/health/ready", "/metrics"] {
            refused(&call(node, &host, &format!("GET {path}"), "", "").await, 421, "unknown-host");
        }
    }
    for host in ["localhost", "127.0.0.1:1", "[::1]:7420", "stile.example", "STILE.example:443"] {
        let seen = call(node, host, "GET /api/v1/signers", "", "").await;
        assert_eq!(seen.status, 200, "{host}: {seen:?}");
    }
    // A request line may name a host, too.
    let line = format!("GET http://evil.example:{port}/api/v1/signers");
    refused(&call(node, &node.address(), &line, "", "").await, 421, "unknown-host");
    let twice = call(node, "localhost", "GET /api/v1/signers", "Host: evil.example\r\n", "").await;
    assert!([400, 421].contains(&twice.status), "{twice:?}");
    assert_eq!(node.allocate(SIGNER).await.nonce(), 0, "nothing was given out before");
}

#[tokio::test]
async fn hole_43_a_page_of_another_site_reads_and_changes_nothing() {
    let solo = Solo::start(|options| options).await;
    let (node, here) = (&solo.node, solo.node.address());
    let mut foreign: Vec<String> =
        ["http://evil.example", "http://127.0.0.1:1", "http://localhost:3000", "null"]
            .map(|origin| format!("Origin: {origin}\r\n"))
            .into();
    foreign.push("Sec-Fetch-Site: cross-site\r\n".to_owned());
    foreign.push("Sec-Fetch-Site: same-site\r\n".to_owned());
    for headers in &foreign {
        let typed = format!("{JSON}{headers}");
        for line in [format!("POST {}", allocate()), "DELETE /api/v1/nodes/n".to_owned()] {
            refused(&call(node, &here, &line, &typed, "").await, 403, "foreign-origin");
        }
        for path in ["/api/v1/signers", "/api/v1/events", "/metrics", "/api/v1/nodes/connect"] {
            let read = call(node, &here, &format!("GET {path}"), headers, "").await;
            refused(&read, 403, "foreign-origin");
        }
        // What says nothing of anybody is for all, and a link may lead to it.
        for path in ["/", "/docs", "/openapi.json", "/health/live", "/health/ready"] {
            let read = call(node, &here, &format!("GET {path}"), headers, "").await;
            assert_eq!(read.status, 200, "{path} {headers}: {read:?}");
        }
        // Nobody is given permission.
        let asks = format!(
            "{headers}Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type\r\n"
        );
        for path in [allocate(), "/health/live".to_owned()] {
            let asked = call(node, &here, &format!("OPTIONS {path}"), &asks, "").await;
            assert!(asked.status >= 400, "{asked:?}");
            let granted = asked.headers.iter().any(|(name, _)| name.starts_with("access-control"));
            assert!(!granted, "{asked:?}");
        }
    }
    assert_eq!(node.allocate(SIGNER).await.nonce(), 0, "nothing was given out before");
    // This server's own page may: the API to browse sends calls.
    let own = format!("{JSON}Origin: http://{here}\r\nSec-Fetch-Site: same-origin\r\n");
    let sent = call(node, &here, &format!("POST {}", allocate()), &own, "{}").await;
    assert_eq!(sent.nonce(), 1);
}

/// A form can send an empty body, or a text, without asking.
#[tokio::test]
async fn hole_43_a_change_says_that_it_is_json_even_if_it_says_nothing() {
    let solo = Solo::start(|options| options).await;
    let (node, here) = (&solo.node, solo.node.address());
    assert_eq!(node.allocate(SIGNER).await.nonce(), 0);
    let signer = format!("/api/v1/signers/{SIGNER}");
    node.post(&format!("{signer}/pause"), serde_json::json!({ "reason": "no" })).await.ok();
    for kind in [
        "",
        "Content-Type: text/plain\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: multipart/form-data; boundary=application/json\r\n",
    ] {
        for (line, body) in [
            (format!("POST {signer}/resume"), ""),
            (format!("POST {signer}/resume"), "{}"),
            (format!("POST {}", allocate()), ""),
            ("PUT /api/v1/nodes/n".to_owned(), ""),
            ("DELETE /api/v1/nodes/n".to_owned(), ""),
        ] {
            let sent = call(node, &here, &line, kind, body).await;
            refused(&sent, 415, "unsupported-media-type");
        }
    }
    assert_eq!(node.signer(SIGNER).await["paused"], "no", "the pause was not lifted");
    node.post(&format!("{signer}/resume"), serde_json::json!({})).await.ok();
    let empty = call(node, &here, &format!("POST {}", allocate()), JSON, "").await;
    assert_eq!(empty.nonce(), 1, "nothing was given out meanwhile");
}

/// Load balancers look by HTTP/1.0, which has no Host.
#[tokio::test]
async fn hole_43_a_probe_that_names_no_server_reads_what_is_open() {
    let solo = crate::Solo::start(|options| options).await;
    let here = solo.node.address();
    for (head, status) in [
        ("GET /health/ready HTTP/1.0", 200),
        ("HEAD /health/live HTTP/1.0", 200),
        ("GET /api/v1/signers HTTP/1.0", 421),
        ("POST /health/live HTTP/1.0", 421),
    ] {
        assert_eq!(status_of(&here, &format!("{head}\r\n\r\n")).await, status, "{head}");
        let named = format!("{head}\r\nHost: evil.example\r\n\r\n");
        assert_eq!(status_of(&here, &named).await, 421, "{head}");
    }
}

const UPGRADE: &str = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// A browser lets every page open a WebSocket to every place, and only says whose page it is.
#[tokio::test]
async fn hole_43_a_websocket_is_for_pages_of_this_server_whatever_host_says() {
    let backend = Backend::sqlite();
    let options = backend.node().set_literal("server.hosts", "[\"stile.example\"]");
    let node = options.start().await;
    let key = backend.key("fleet", "read,operate", "all").await;
    node.with(&key).until_let_in(true).await;
    let bearer = format!("Authorization: Bearer {key}\r\n");
    let open = async |host: &str, origin: &str| {
        let line = "GET /api/v1/nodes/connect HTTP/1.1\r\n";
        let head = format!(
            "{line}{UPGRADE}{bearer}Connection: upgrade\r\nHost: {host}\r\nOrigin: {origin}\r\n\r\n"
        );
        status_of(&node.address(), &head).await
    };
    let here = node.address();
    assert_eq!(open("evil.example", "http://evil.example").await, 421);
    assert_eq!(open(&here, "http://evil.example").await, 403);
    assert_eq!(open(&here, "http://127.0.0.1:1").await, 403);
    assert_eq!(open(&here, &format!("http://{here}")).await, 101);
    // Behind a proxy that does not pass the name on.
    assert_eq!(open(&here, "https://stile.example").await, 101);
}

/// The status that is answered to this head, whatever becomes of the connection.
async fn status_of(address: &str, head: &str) -> u16 {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut line = [0; 12];
    stream.read_exact(&mut line).await.unwrap();
    std::str::from_utf8(&line[9..]).unwrap().parse().unwrap()
}
