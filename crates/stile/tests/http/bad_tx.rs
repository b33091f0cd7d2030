//! The calls about transactions refuse what they cannot use, say which field, and write nothing.

use serde_json::Value;

use crate::Solo;
use crate::bad::{Bad, NO_CHAIN, bad_signers};
use crate::common::{SIGNER, signer};

const TO: &str = "\"0x70997970c51812dc3a010c7d01b50e0d17dc79c8\"";
const TX: &str = "01890000-0000-7000-8000-000000000000";

/// A body with these fields besides those that must be there.
fn body(fields: &str) -> String {
    format!("{{\"signer\": \"{SIGNER}\", \"payload\": {{\"to\": {TO}}}{fields}}}")
}

/// A body whose payload has these fields besides `to`.
fn paying(fields: &str) -> String {
    format!("{{\"signer\": \"{SIGNER}\", \"payload\": {{\"to\": {TO}{fields}}}}}")
}

/// Texts of values that are no amount.
const NO_AMOUNT: [&str; 13] = [
    "-1",
    "1.5",
    "true",
    "[]",
    "{}",
    "\"\"",
    "\"0x\"",
    "\"-1\"",
    "\"1.5\"",
    "\"1eth\"",
    "\"0xzz\"",
    "\" 1\"",
    "18446744073709551616",
];

/// Bodies of `POST /api/v1/tx` with one thing wrong, and the field at fault.
fn bad_sends() -> Vec<(String, &'static str)> {
    let mut bad = vec![
        ("{}".to_owned(), "signer"),
        (format!("{{\"signer\": \"{SIGNER}\"}}"), "payload"),
        (format!("{{\"payload\": {{\"to\": {TO}}}}}"), "signer"),
        (format!("{{\"signer\": \"{SIGNER}\", \"payload\": {{}}}}"), "payload.to"),
        (format!("{{\"signer\": \"{SIGNER}\", \"payload\": {{\"value\": \"1\"}}}}"), "payload.to"),
        (body(", \"unknown\": 1"), "unknown"),
        (body(", \"request_id\": \"a\""), "request_id"),
        (body(&format!(", \"signer\": \"{SIGNER}\"")), "signer"),
        (paying(", \"unknown\": 1"), "payload.unknown"),
        (paying(", \"nonce\": 1"), "payload.nonce"),
        (paying(&format!(", \"to\": {TO}")), "payload.to"),
        (paying(", \"gasPrice\": \"1\", \"maxFeePerGas\": \"1\""), "payload.gasPrice"),
        (
            paying(", \"maxFeePerGas\": \"1\", \"maxPriorityFeePerGas\": \"2\""),
            "payload.maxPriorityFeePerGas",
        ),
        (paying(", \"maxFeePerGas\": \"2\", \"feeLimit\": \"1\""), "payload.feeLimit"),
        (paying(", \"gasPrice\": \"2\", \"feeLimit\": \"1\""), "payload.feeLimit"),
    ];
    for payload in ["null", "1", "true", "\"\"", "[]", "[null]"] {
        let body = format!("{{\"signer\": \"{SIGNER}\", \"payload\": {payload}}}");
        bad.push((body, "payload"));
    }
    let mistyped = format!("\"{}\"", SIGNER.replace("f39F", "f39f"));
    let unprefixed = format!("\"{}\"", &SIGNER[2..]);
    for address in ["1", "true", "[]", "{}", "\"\"", "\"0x12\"", &mistyped, &unprefixed] {
        bad.push((format!("{{\"signer\": {address}, \"payload\": {{\"to\": {TO}}}}}"), "signer"));
        let body = format!("{{\"signer\": \"{SIGNER}\", \"payload\": {{\"to\": {address}}}}}");
        bad.push((body, "payload.to"));
    }
    for chain in NO_CHAIN {
        bad.push((body(&format!(", \"chainId\": {chain}")), "chainId"));
    }
    let long = format!("\"{}\"", "x".repeat(256));
    for id in ["1", "true", "[]", "{}", "\"\"", "\"caf\u{e9}\"", "\"a\\tb\"", "\"\\u0000\"", &long]
    {
        bad.push((body(&format!(", \"requestId\": {id}")), "requestId"));
    }
    let limits = [
        ("value", "payload.value"),
        ("gasLimit", "payload.gasLimit"),
        ("gasPrice", "payload.gasPrice"),
        ("maxFeePerGas", "payload.maxFeePerGas"),
        ("maxPriorityFeePerGas", "payload.maxPriorityFeePerGas"),
        ("feeLimit", "payload.feeLimit"),
    ];
    let huge = format!("\"0x1{}\"", "0".repeat(64));
    for (name, field) in limits {
        for amount in NO_AMOUNT.into_iter().chain([huge.as_str()]) {
            bad.push((paying(&format!(", \"{name}\": {amount}")), field));
        }
    }
    for value in ["0", "1", "\"true\"", "\"\"", "[]", "{}"] {
        let fields = format!(", \"resendIfReplaced\": {value}");
        bad.push((paying(&fields), "payload.resendIfReplaced"));
    }
    for gas in ["0", "\"20999\"", "\"9223372036854775808\"", "\"18446744073709551616\""] {
        bad.push((paying(&format!(", \"gasLimit\": {gas}")), "payload.gasLimit"));
    }
    let large = format!("\"0x{}\"", "00".repeat(120 * 1024 + 1));
    for data in ["1", "true", "[]", "\"\"", "\"00\"", "\"0x0\"", "\"0xzz\"", "\"0x0x00\"", &large] {
        bad.push((paying(&format!(", \"data\": {data}")), "payload.data"));
    }
    for finality in ["1", "true", "[]", "\"\"", "\"latest\"", "\"SAFE\""] {
        bad.push((body(&format!(", \"finality\": {finality}")), "finality"));
    }
    for count in ["-1", "1.5", "\"1\"", "null", "100001", "4294967296"] {
        let fields = format!(", \"finality\": {{\"confirmations\": {count}}}");
        bad.push((body(&fields), "finality.confirmations"));
    }
    bad.push((body(", \"finality\": {}"), "finality.confirmations"));
    bad.push((body(", \"finality\": {\"safe\": null}"), "finality.safe"));
    bad
}

fn bad_bodies() -> Vec<Bad> {
    let send = |body: &str| Bad::post("/api/v1/tx", body);
    let mut bad: Vec<Bad> =
        bad_sends().into_iter().map(|(body, field)| send(&body).field(field)).collect();
    let elsewhere = body(", \"chainId\": 1");
    bad.push(send(&elsewhere).expect(404, "unknown-signer", None));
    let stranger = body("").replace(SIGNER, &signer(9));
    bad.push(send(&stranger).expect(404, "unknown-signer", None));
    bad.push(send(&body("")).expect(422, "no-key", None));
    let named = send(&body(", \"requestId\": \"a\"")).header("idempotency-key", "b");
    bad.push(named.field("requestId"));
    bad.push(send(&body("")).header("idempotency-key", "").field("Idempotency-Key"));
    bad.push(send(&format!("{} garbage", body(""))).malformed());

    let batch = |body: &str| Bad::post("/api/v1/tx/batch", body);
    for items in ["null", "1", "\"\"", "{}", "[]"] {
        bad.push(batch(&format!("{{\"items\": {items}}}")).field("items"));
    }
    let many = vec!["{}"; 1001].join(",");
    bad.push(batch(&format!("{{\"items\": [{many}]}}")).field("items"));
    bad.push(batch("{}").field("items"));
    bad.push(batch("{\"items\": [], \"unknown\": 1}").field("unknown"));
    let one = format!("{{\"items\": [{}]}}", body(""));
    bad.push(batch(&one).header("idempotency-key", "a").field("Idempotency-Key"));

    for (path, limit) in [("/api/v1/tx", 512 * 1024), ("/api/v1/tx/batch", 16 * 1024 * 1024)] {
        let large = [vec![b' '; limit], body("").into_bytes()].concat();
        bad.push(Bad::post(path, large).expect(413, "body-too-large", None));
        for text in ["[]", "null", "1", "\"text\""] {
            bad.push(Bad::post(path, text).field("body"));
        }
        for text in ["{", "nonsense", "{\""] {
            bad.push(Bad::post(path, text).malformed());
        }
        let untyped = Bad::post(path, body("")).header("content-type", "text/plain");
        bad.push(untyped.expect(415, "unsupported-media-type", None));
    }
    bad
}

/// What withdrawing and speeding up refuse.
fn bad_replacements() -> Vec<Bad> {
    let mut bad = Vec::new();
    for rest in ["cancel", "speed-up"] {
        let path = || format!("/api/v1/tx/{TX}/{rest}");
        bad.push(Bad::post(path(), "{}").expect(404, "tx-not-found", None));
        bad.push(Bad::new("POST", path()).expect(404, "tx-not-found", None));
        for id in ["nonsense", "1", "01890000-0000-7000-8000-00000000000g", "%20", "%ff"] {
            bad.push(Bad::post(format!("/api/v1/tx/{id}/{rest}"), "{}").field("txId"));
        }
        bad.push(Bad::post(path(), "{\"unknown\": 1}").field("unknown"));
        for body in ["[]", "null", "1", "\"text\"", "true"] {
            bad.push(Bad::post(path(), body).field("body"));
        }
        for body in ["{", "nonsense", " ", "{} garbage", "{}{}"] {
            bad.push(Bad::post(path(), body).malformed());
        }
        let large = [vec![b' '; 1_000_000], b"{}".to_vec()].concat();
        bad.push(Bad::post(path(), large).expect(413, "body-too-large", None));
        let untyped = Bad::post(path(), "{}").header("content-type", "text/plain");
        bad.push(untyped.expect(415, "unsupported-media-type", None));
        for method in ["GET", "PUT", "DELETE", "PATCH"] {
            bad.push(Bad::new(method, path()).expect(405, "method-not-allowed", None));
        }
    }
    let speed_up = |body: &str| Bad::post(format!("/api/v1/tx/{TX}/speed-up"), body);
    for name in ["maxFeePerGas", "maxPriorityFeePerGas", "gasPrice"] {
        for amount in NO_AMOUNT {
            bad.push(speed_up(&format!("{{\"{name}\": {amount}}}")).field(name));
        }
        let twice = format!("{{\"{name}\": 1, \"{name}\": 1}}");
        bad.push(speed_up(&twice).field(name));
    }
    for (body, field) in [
        ("{\"maxFeePerGas\": 1}", "maxPriorityFeePerGas"),
        ("{\"maxPriorityFeePerGas\": 1}", "maxFeePerGas"),
        ("{\"maxFeePerGas\": 1, \"maxPriorityFeePerGas\": 2}", "maxPriorityFeePerGas"),
        ("{\"gasPrice\": 1, \"maxFeePerGas\": 1}", "gasPrice"),
        ("{\"gasPrice\": 1, \"maxPriorityFeePerGas\": 1}", "gasPrice"),
        ("{\"feeLimit\": 1}", "feeLimit"),
        ("{\"gas_price\": 1}", "gas_price"),
    ] {
        bad.push(speed_up(body).field(field));
    }
    bad.push(Bad::post(format!("/api/v1/tx/{TX}/cancel"), "{\"gasPrice\": 1}").field("gasPrice"));
    bad
}

fn bad_reads() -> Vec<Bad> {
    let get = |path: String| Bad::new("GET", path);
    let mut bad = Vec::new();
    for rest in ["", "/history", "/attempts", "/confirmations"] {
        for id in ["nonsense", "1", "01890000-0000-7000-8000-00000000000g", "%20", "%ff"] {
            bad.push(get(format!("/api/v1/tx/{id}{rest}")).field("txId"));
        }
        let missing = get(format!("/api/v1/tx/{TX}{rest}"));
        bad.push(missing.expect(404, "tx-not-found", None));
        let post = Bad::post(format!("/api/v1/tx/{TX}{rest}"), "{}");
        bad.push(post.expect(405, "method-not-allowed", None));
    }
    let hash = crate::common::hash(1);
    for seen in ["", "1", "1:", ":", "x:y", "-1:0x", "1:0x12", &format!("+1:{hash}"), &hash] {
        let path = format!("/api/v1/tx/{TX}/confirmations?seen={seen}");
        bad.push(get(path).field("seen"));
    }
    bad.push(get(format!("/api/v1/tx/{TX}/confirmations?unknown=1")).field("unknown"));

    let by_request = |query: String| get(format!("/api/v1/tx/by-request?{query}"));
    bad.push(by_request(String::new()).field("signer"));
    bad.push(by_request(format!("signer={SIGNER}")).field("requestId"));
    bad.push(by_request("requestId=a".to_owned()).field("signer"));
    bad.push(by_request(format!("signer={SIGNER}&requestId=")).field("requestId"));
    bad.push(by_request(format!("signer={SIGNER}&requestId=a&unknown=1")).field("unknown"));
    bad.push(by_request(format!("signer={SIGNER}&requestId=a&chainId=0")).field("chainId"));
    let none = by_request(format!("signer={SIGNER}&requestId=a"));
    bad.push(none.expect(404, "tx-not-found", None));

    let list = |query: String| get(format!("/api/v1/tx?{query}"));
    for limit in ["0", "abc", "-1", "501", "1.5", ""] {
        bad.push(list(format!("limit={limit}")).field("limit"));
    }
    for cursor in ["nonsense", "-1", "", "99999999999999999999"] {
        bad.push(list(format!("cursor={cursor}")).field("cursor"));
    }
    for state in ["confirmed", "DONE", ""] {
        bad.push(list(format!("state={state}")).field("state"));
    }
    let events = |query: String| get(format!("/api/v1/events?{query}"));
    for after in ["", "x", "1", "1-", "-1", "1-x", "1--1", "99999999999999999999-1"] {
        bad.push(events(format!("after={after}")).field("after"));
        let call = get("/api/v1/events".to_owned()).header("last-event-id", after);
        bad.push(call.field("Last-Event-ID"));
    }
    bad.push(events("txId=nonsense".to_owned()).field("txId"));
    for call in [&list as &dyn Fn(String) -> Bad, &events] {
        for chain in ["0", "-1", "abc", ""] {
            bad.push(call(format!("chainId={chain}")).field("chainId"));
        }
        bad.push(call("unknown=1".to_owned()).field("unknown"));
        bad.extend(bad_signers(|signer| call(format!("signer={signer}"))));
    }
    let named = |signer: &str| by_request(format!("signer={signer}&requestId=a"));
    bad.extend(bad_signers(named));
    bad.push(Bad::post("/api/v1/events", "{}").expect(405, "method-not-allowed", None));
    bad
}

#[tokio::test]
async fn bad_transactions_are_refused_with_a_reason_and_nothing_is_written() {
    let solo = Solo::start(&[SIGNER.to_owned()]).await;
    let before = solo.dump();
    for call in [bad_bodies(), bad_replacements(), bad_reads()].into_iter().flatten() {
        call.is_refused(&solo.node).await;
    }
    assert_eq!(solo.dump(), before);
    assert!(!solo.node.process.stderr().contains("ERROR"), "{}", solo.node.process.stderr());
}

#[tokio::test]
async fn each_item_of_a_batch_is_refused_by_itself() {
    let solo = Solo::start(&[SIGNER.to_owned()]).await;
    let before = solo.dump();
    let mut bad = bad_sends();
    bad.push(("5".to_owned(), ""));
    let bodies = bad.iter().map(|(body, _)| body.as_str()).collect::<Vec<_>>().join(",");
    let batch = format!("{{\"items\": [{bodies}]}}");
    let answer = solo.node.request("POST", "/api/v1/tx/batch").body(batch).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let answer: Value = answer.json().await.unwrap();
    let items = answer["items"].as_array().unwrap();
    assert_eq!(items.len(), bad.len());
    for (place, (item, (body, field))) in items.iter().zip(&bad).enumerate() {
        let what: String = body.chars().take(200).collect();
        assert_eq!((&item["status"], &item["tx"]), (&422.into(), &Value::Null), "{what}: {item}");
        let problem = &item["problem"];
        let expected = format!("items[{place}].{field}");
        let expected = expected.trim_end_matches('.');
        assert_eq!(problem["errors"][0]["field"], expected, "{what}: {item}");
        assert!(problem["detail"].as_str().unwrap().starts_with(expected), "{what}: {item}");
    }
    assert_eq!(solo.dump(), before);
}
