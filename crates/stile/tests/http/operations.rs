//! Health, metrics, the OpenAPI document.

use std::collections::BTreeSet;

use serde_json::json;
use stile_engine::metrics::METRICS;
use testkit::{Anvil, AnvilOptions, Postgres, eventually};

use crate::Solo;
use crate::common::{NodeOptions, SIGNER, hash, signers};

#[tokio::test]
async fn a_node_is_live_without_its_database_and_ready_only_with_it() {
    let mut postgres = Postgres::start(&[]).await;
    let node = NodeOptions::postgres("a", &postgres.database().await, &signers(1)).start().await;
    let ok = json!({ "status": "ok" });
    assert_eq!(node.get("/health/live").await.ok(), ok);
    let ready = json!({ "status": "ok", "registry": "normal" });
    assert_eq!(node.get("/health/ready").await.ok(), ready);
    let hold = node.allocate(&signers(1)[0]).await.ok();

    postgres.stop_immediate().await;
    // What was found out a moment ago is not asked for again.
    let unready = eventually("the node not to be ready", async || {
        let answer = node.get("/health/ready").await;
        (answer.status != 200).then_some(answer)
    })
    .await;
    assert_eq!((unready.status, unready.problem().as_str()), (503, "store-unavailable"));
    assert_eq!(unready.header("retry-after"), Some("1"));
    assert_eq!(node.get("/health/live").await.ok(), ok);
    for answer in [node.allocate(&signers(1)[0]).await, node.used(&hold, &hash(1)).await] {
        assert_eq!((answer.status, answer.problem().as_str()), (503, "store-unavailable"));
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    assert!(node.metric("stile_store_errors_total").await > 0.0);

    postgres.start_again().await;
    eventually("the node to be ready again", async || {
        (node.get("/health/ready").await.status == 200).then_some(())
    })
    .await;
    assert_eq!(node.used(&hold, &hash(1)).await.ok()["status"], "CONSUMED");
    assert_eq!(node.allocate(&signers(1)[0]).await.nonce(), 1);
}

/// A line of Prometheus' text format: its metric and its labels.
fn parse(line: &str) -> Option<(&str, Vec<(String, String)>)> {
    let (series, value) = line.rsplit_once(' ')?;
    value.parse::<f64>().ok()?;
    let Some((name, labels)) = series.split_once('{') else { return Some((series, vec![])) };
    let labels = labels.strip_suffix("\"}")?.split("\",").map(|label| {
        let (name, value) = label.split_once("=\"")?;
        Some((name.to_owned(), value.to_owned()))
    });
    Some((name, labels.collect::<Option<_>>()?))
}

fn is_metric_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

#[tokio::test]
async fn metrics_are_prometheus_text_with_every_metric_and_few_addresses() {
    // A chain, a transaction, a reorganisation and a hold that is over, so that there is something to
    // measure.
    let anvil = Anvil::start(AnvilOptions::default()).await;
    anvil.mine(3).await;
    let solo = Solo::start_with(&[], |options| {
        let options = options.key_in_environment("STILE_TEST_KEY", Anvil::key(0));
        let options = options.endpoint(anvil.url()).set("retention.holds", "1s");
        let options = options.set("nonce.state_timeout", "1s").max_concurrency(50);
        options.set_literal("confirmations.required", "0")
    })
    .await;
    let hold = solo.node.allocate(SIGNER).await.ok();
    solo.node.recyclable(&hold, "not needed").await.ok();
    solo.node.get(&format!("/api/v1/signers/{SIGNER}")).await.ok();
    let payload = json!({ "to": SIGNER, "value": "1" });
    let sent = solo.node.post("/api/v1/tx", json!({ "signer": SIGNER, "payload": payload })).await;
    let path = format!("/api/v1/tx/{}", sent.json()["txId"].as_str().unwrap());
    eventually("the transaction to be done", async || {
        (solo.node.get(&path).await.ok()["state"] == "CONFIRMED").then_some(())
    })
    .await;
    anvil.rpc("anvil_reorg", json!([2, []])).await;
    let page = eventually("every metric to be there", async || {
        let answer = solo.node.get("/metrics").await;
        assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4"));
        let all =
            METRICS.iter().all(|(name, _, _)| answer.text.contains(&format!("# TYPE {name} ")));
        all.then_some(answer.text)
    })
    .await;
    let mut declared = BTreeSet::new();
    for line in page.lines().filter(|line| !line.is_empty()) {
        if let Some(comment) = line.strip_prefix("# ") {
            let words: Vec<&str> = comment.splitn(3, ' ').collect();
            let [kind, name, text] = words[..] else { panic!("{line}") };
            match kind {
                "HELP" => assert!(!text.is_empty(), "{line}"),
                "TYPE" => assert!(["counter", "gauge", "histogram"].contains(&text), "{line}"),
                _ => panic!("{line}"),
            }
            assert!(is_metric_name(name), "{line}");
            declared.insert((name, kind));
            continue;
        }
        let (name, labels) = parse(line).unwrap_or_else(|| panic!("not Prometheus text: {line}"));
        let suffixes = ["_bucket", "_sum", "_count"];
        let base = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
        let described =
            |name| declared.contains(&(name, "TYPE")) && declared.contains(&(name, "HELP"));
        assert!(described(name) || described(base), "without TYPE and HELP: {line}");
        for (label, value) in labels {
            assert!(is_metric_name(&label), "{line}");
            let address = value.to_lowercase().contains("0x");
            assert!(!address || OF_SIGNERS.contains(&name), "an address in a label: {line}");
        }
    }
    for (name, kind, text) in METRICS {
        assert!(page.contains(&format!("# HELP {name} {text}\n")), "{name}");
        let kind = format!("{kind:?}").to_lowercase();
        assert!(page.contains(&format!("# TYPE {name} {kind}\n")), "{name}");
    }
    assert_eq!(solo.node.metric("stile_allocate_total{result=\"fresh\"}").await, 1.0);
    let used = "stile_mark_total{verdict=\"recyclable\",result=\"done\"}";
    assert_eq!(solo.node.metric(used).await, 1.0);
}

/// What names a signer, because somebody has to act on it.
const OF_SIGNERS: [&str; 5] = [
    "stile_lane_paused",
    "stile_lane_gap_seconds",
    "stile_lane_restored_waiting",
    "stile_signer_balance_ether",
    "stile_signer_runway_transactions",
];

/// Every route there is; one that is added must be added here.
const ROUTES: [(&str, &str); 48] = [
    ("post", "/api/v1/tx"),
    ("post", "/api/v1/tx/batch"),
    ("get", "/api/v1/tx"),
    ("get", "/api/v1/tx/by-request"),
    ("get", "/api/v1/tx/{txId}"),
    ("post", "/api/v1/tx/{txId}/cancel"),
    ("post", "/api/v1/tx/{txId}/restored"),
    ("post", "/api/v1/tx/{txId}/speed-up"),
    ("get", "/api/v1/tx/{txId}/history"),
    ("get", "/api/v1/tx/{txId}/attempts"),
    ("get", "/api/v1/tx/{txId}/confirmations"),
    ("get", "/api/v1/chains"),
    ("get", "/api/v1/chains/{chainId}"),
    ("get", "/api/v1/events"),
    ("get", "/api/v1/nonces/{signer}"),
    ("post", "/api/v1/nonces/{signer}/allocate"),
    ("post", "/api/v1/nonces/{signer}/{nonce}/recyclable"),
    ("post", "/api/v1/nonces/{signer}/{nonce}/used"),
    ("post", "/api/v1/dispatch"),
    ("post", "/api/v1/jobs/{id}/complete"),
    ("get", "/api/v1/nodes"),
    ("get", "/api/v1/nodes/connect"),
    ("get", "/api/v1/nodes/{id}"),
    ("put", "/api/v1/nodes/{id}"),
    ("delete", "/api/v1/nodes/{id}"),
    ("post", "/api/v1/nodes/{id}/heartbeat"),
    ("get", "/api/v1/pools/{id}/members"),
    ("get", "/api/v1/pools/{id}/select"),
    ("get", "/api/v1/registry/config/{name}"),
    ("put", "/api/v1/registry/config/{name}"),
    ("get", "/api/v1/route"),
    ("get", "/api/v1/signers"),
    ("get", "/api/v1/signers/{signer}"),
    ("get", "/api/v1/signers/{signer}/doctor"),
    ("get", "/api/v1/signers/{signer}/history"),
    ("post", "/api/v1/signers/{signer}/pause"),
    ("post", "/api/v1/signers/{signer}/reconcile"),
    ("post", "/api/v1/signers/{signer}/repair"),
    ("get", "/api/v1/signers/{signer}/restored"),
    ("post", "/api/v1/signers/{signer}/restored"),
    ("post", "/api/v1/signers/{signer}/resume"),
    ("get", "/api/v1/keys"),
    ("post", "/api/v1/keys"),
    ("delete", "/api/v1/keys/{keyId}"),
    ("post", "/api/v1/keys/{keyId}/rotate"),
    ("get", "/health/live"),
    ("get", "/health/ready"),
    ("get", "/metrics"),
];

#[tokio::test]
async fn the_openapi_document_is_served_and_has_every_route() {
    let solo = Solo::start(&[SIGNER.to_owned()]).await;
    let served = solo.node.get("/openapi.json").await.ok();
    assert_eq!(served, serde_json::to_value(stile_server::openapi()).unwrap());
    let described: Vec<(&str, &str)> = served["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(|method| (method.as_str(), path.as_str()))
        })
        .collect();
    let (described, routes): (BTreeSet<_>, BTreeSet<_>) =
        (described.into_iter().collect(), ROUTES.into_iter().collect());
    assert_eq!(described, routes);
    assert_eq!(operation_ids(&served).len(), ROUTES.len(), "a name of its own for each");
    for (method, path) in ROUTES {
        let path = path.replace("{signer}", SIGNER).replace("{nonce}", "0");
        // A stream has no end to wait for, unless it is refused.
        let path = path.replace("/events", "/events?after=nonsense");
        let answer = solo.node.request(&method.to_uppercase(), &path).send().await.unwrap();
        let code = crate::common::Answer::of(answer).await.unwrap();
        assert!(!code.text.contains("urn:stile:error:not-found"), "{method} {path}");
        assert_ne!(code.status, 405, "{method} {path}");
    }
}

fn operation_ids(document: &serde_json::Value) -> BTreeSet<&str> {
    let paths = document["paths"].as_object().unwrap().values();
    let calls = paths.flat_map(|methods| methods.as_object().unwrap().values());
    calls.filter_map(|call| call["operationId"].as_str()).collect()
}

#[tokio::test]
async fn the_pages_bring_all_they_need() {
    let solo = Solo::start(&[SIGNER.to_owned()]).await;
    for path in ["/", "/docs"] {
        let page = solo.node.get(path).await;
        assert_eq!(page.status, 200);
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        assert!(!policy.contains("http") && !policy.contains('*'), "{policy}");
        for elsewhere in ["http://", "https://", "\"//"] {
            assert!(!page.text.contains(elsewhere), "{path} has {elsewhere}");
        }
        assert!(!page.text.contains("innerHTML"), "what the server says is text, not HTML");
        let sources = page.text.split("src=\"").skip(1).chain(page.text.split("href=\"").skip(1));
        for source in sources.map(|rest| rest.split('"').next().unwrap()) {
            if source != "data:," && source != "/api/v1/events" {
                assert_eq!(solo.node.get(source).await.status, 200, "{path} needs {source}");
            }
        }
    }
}

#[tokio::test]
async fn streams_of_events_end_when_the_server_stops() {
    let solo = Solo::start(&[SIGNER.to_owned()]).await;
    let mut stream = solo.node.request("GET", "/api/v1/events").send().await.unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let begin = String::from_utf8(stream.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    assert!(begin.starts_with("id: "), "where the stream begins is told at once: {begin}");
    let stopping = std::time::Instant::now();
    let (ended, stopped) = tokio::join!(stream.text(), solo.node.terminate());
    ended.unwrap();
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    assert!(stopping.elapsed() < std::time::Duration::from_secs(10), "{:?}", stopping.elapsed());
    assert!(!stopped.stderr.contains("still running"), "{stopped:?}");
}
