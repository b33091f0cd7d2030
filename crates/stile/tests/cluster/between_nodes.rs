//! What goes from one node to another, where to, and which way.

use chaos::hostile::Trap;
use testkit::{Authority, TlsProxy, eventually};

use crate::common::{Database, NodeOptions, StileProcess, signer};
use crate::passing_on::{SECRET, allocate, first_key, held_by, options, with, with_secret};

/// A node with a key, and a lane that is said to be held where the trap is.
struct Led {
    database: Database,
    node: StileProcess,
    key: String,
    trap: Trap,
}

impl Led {
    async fn new(change: impl FnOnce(NodeOptions) -> NodeOptions) -> Self {
        let (database, trap) = (Database::new().await, Trap::start().await);
        let node = change(with_secret(options("a", &database), SECRET)).start().await;
        assert_eq!(allocate(&node, &[]).await.nonce(), 0);
        let key = first_key(&node).await;
        Self { database, node, key, trap }
    }

    /// Asks the node for something that only the lane's holder can do.
    async fn ask(&self) -> u16 {
        allocate(&self.node, &[("authorization", &self.key)]).await.status
    }
}

/// Row 40: the node that holds a lane is told whose call it is, and neither their key nor the secret.
#[tokio::test]
async fn hole_40_neither_a_key_nor_the_secret_goes_to_another_node() {
    let led = Led::new(|options| options).await;
    held_by(&led.database, &led.trap.url()).await;
    led.ask().await;
    let order = format!("/api/v1/signers/{}/pause", signer(0));
    let order = with(&led.node, &led.key, "POST", &order).json(&serde_json::json!({})).send();
    order.await.unwrap();
    let caught = eventually("a call to arrive", async || {
        let caught = led.trap.caught();
        caught.iter().any(|it| it.contains("stile-pass")).then_some(caught)
    })
    .await;
    let token = led.key.strip_prefix("Bearer ").unwrap();
    for call in &caught {
        println!("{call}");
        for secret in [token, &token[6..], SECRET, "authorization", "cluster-secret"] {
            assert!(!call.contains(secret), "{secret} in {call}");
        }
    }
}

/// Row 40: whatever stands on a lane, a call goes only to a node that has told the database of itself.
#[tokio::test]
async fn hole_40_a_call_goes_only_to_a_node_that_the_database_knows() {
    let led = Led::new(|options| options).await;
    let url = led.trap.url();
    held_by(&led.database, &url).await;
    for (case, change) in [
        ("no such node", "DELETE FROM node WHERE node_id = 'x'".to_owned()),
        (
            "another start of it",
            format!(
                "INSERT INTO node (node_id, incarnation, url, mode, serves, started_at, seen_at)
                 SELECT 'x', gen_random_uuid(), '{url}', 'basic', '', now(), now()"
            ),
        ),
        (
            "another place",
            "UPDATE node n SET incarnation = l.owner_incarnation, url = 'http://127.0.0.1:1',
                               started_at = clock_timestamp(), seen_at = clock_timestamp()
             FROM lane l WHERE n.node_id = 'x'"
                .to_owned(),
        ),
    ] {
        led.database.execute(&change).await;
        assert_eq!(led.ask().await, 503, "{case}");
        assert_eq!(led.trap.caught(), [""; 0], "{case}");
    }
}

/// Row 40: without TLS nothing goes to another machine, whatever the other node advertises.
#[tokio::test]
async fn hole_40_a_call_does_not_leave_the_machine_in_the_clear() {
    let led = Led::new(|options| options).await;
    held_by(&led.database, "http://192.0.2.1:7420").await;
    for _ in 0..5 {
        assert_eq!(led.ask().await, 409, "it is not even tried");
    }
    let log = led.node.process.stderr();
    let told = log.lines().filter(|line| line.contains("cluster.trusted_network")).count();
    assert_eq!(told, 1, "it is said why, and not with every call: {log}");
    let refused = with_secret(options("b", &led.database), SECRET)
        .set("cluster.advertise_url", "http://192.0.2.1:7420")
        .refused()
        .await;
    assert_ne!(refused.code, Some(0));
    for word in ["cluster.advertise_url", "https://", "cluster.trusted_network = true"] {
        assert!(refused.stderr.contains(word), "{word}: {}", refused.stderr);
    }
}

/// Row 40: what could be guessed is no secret.
#[tokio::test]
async fn hole_40_a_weak_secret_is_refused() {
    let database = Database::new().await;
    for weak in ["correct-horse-battery-staple", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"] {
        let refused = with_secret(options("a", &database), weak).refused().await;
        assert_ne!(refused.code, Some(0));
        for word in ["cluster.secret", "openssl rand -hex 32"] {
            assert!(refused.stderr.contains(word), "{word}: {}", refused.stderr);
        }
        assert!(!refused.stderr.contains(weak), "{}", refused.stderr);
    }
}

/// Nodes reach each other by TLS, with certificates of an authority of their own.
#[tokio::test]
async fn calls_go_by_tls_to_nodes_that_the_clusters_authority_has_certified() {
    let database = Database::new().await;
    let (proxy, stranger) = (TlsProxy::start().await, TlsProxy::start().await);
    let node = |name: &str, authority: &TlsProxy| {
        with_secret(options(name, &database), SECRET)
            .set("cluster.ca", authority.authority().display().to_string())
    };
    let a = node("a", &proxy).set("cluster.advertise_url", proxy.url()).start().await;
    proxy.lead_to(a.address().parse().unwrap());
    let (b, c) = (node("b", &proxy), node("c", &stranger));
    let (b, c) = tokio::join!(b.start(), c.start());
    assert_eq!(allocate(&a, &[]).await.nonce(), 0);
    assert_eq!(allocate(&b, &[]).await.nonce(), 1, "by TLS");
    assert_eq!(b.metric("stile_forward_total{result=\"answered\"}").await, 1.0);
    // Whose authority has not certified a does not take it for a.
    let answer = allocate(&c, &[]).await;
    assert_eq!((answer.status, answer.problem().as_str()), (503, "holder-unreachable"));
    assert_eq!(c.metric("stile_forward_total{result=\"answered\"}").await, 0.0);
    let refused = node("d", &proxy).set("cluster.ca", "/nowhere/ca.pem").refused().await;
    assert!(refused.stderr.contains("cluster.ca"), "{}", refused.stderr);
}

/// Where servers ask callers for a certificate, nodes show theirs to each other.
#[tokio::test]
async fn hole_40_nodes_show_a_certificate_where_others_ask_for_one() {
    let (database, authority) = (Database::new().await, Authority::new());
    let ca = authority.file().display().to_string();
    let node = |name: &str| {
        let certified = authority.certify(name, &["127.0.0.1"]);
        let identity = authority.file().with_file_name(format!("{name}.identity"));
        std::fs::copy(&certified.key, &identity).unwrap();
        std::fs::write(&identity, certified.pem()).unwrap();
        let options = with_secret(options(name, &database), SECRET);
        let options = options.tls(&authority, &certified).client_ca(&authority, &certified);
        (options.set("cluster.ca", &ca), identity.display().to_string())
    };
    let (a, identity) = node("a");
    let refused = a.refused().await;
    assert!(refused.stderr.contains("cluster.identity"), "{}", refused.stderr);
    let a = node("a").0.set("cluster.identity", identity).start().await;
    let (b, identity) = node("b");
    let b = b.set("cluster.identity", identity).start().await;
    assert_eq!(allocate(&a, &[]).await.nonce(), 0);
    assert_eq!(allocate(&b, &[]).await.nonce(), 1);
    assert_eq!(b.metric("stile_forward_total{result=\"answered\"}").await, 1.0);
}
