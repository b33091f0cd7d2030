//! Every call refuses what it cannot use, says which field, and writes nothing.

use crate::Solo;
use crate::bad::{Bad, NO_CHAIN, bad_signers};
use crate::common::{SIGNER, hash};

/// A call's path and its body, as they would be right but for the parts that a test replaces.
struct Call {
    /// The path before the signer.
    prefix: &'static str,
    /// The path after the signer.
    rest: &'static str,
    /// The fields that must be there, each with the text of a good value.
    fields: &'static [(&'static str, &'static str)],
}

const HOLD: &str = "\"01890000-0000-7000-8000-000000000000\"";
const HASH: &str = "\"0x1111111111111111111111111111111111111111111111111111111111111111\"";

/// Every call about a signer that takes a body.
const CALLS: [Call; 7] = [
    Call { prefix: "/api/v1/nonces", rest: "/allocate", fields: &[] },
    Call {
        prefix: "/api/v1/nonces",
        rest: "/0/used",
        fields: &[("holdId", HOLD), ("txHash", HASH)],
    },
    Call {
        prefix: "/api/v1/nonces",
        rest: "/0/recyclable",
        fields: &[("holdId", HOLD), ("reason", "\"not sent\"")],
    },
    Call { prefix: "/api/v1/signers", rest: "/pause", fields: &[("reason", "\"maintenance\"")] },
    Call { prefix: "/api/v1/signers", rest: "/resume", fields: &[] },
    Call { prefix: "/api/v1/signers", rest: "/repair", fields: &[] },
    Call { prefix: "/api/v1/signers", rest: "/reconcile", fields: &[] },
];

impl Call {
    fn path(&self, signer: &str) -> String {
        format!("{}/{signer}{}", self.prefix, self.rest)
    }

    /// A whole body in which one field is replaced, added, or (by `None`) left out.
    fn body(&self, name: &str, value: Option<&str>) -> String {
        let kept = self.fields.iter().filter(|(known, _)| *known != name);
        let kept = kept.map(|(known, value)| format!("\"{known}\": {value}"));
        let changed = value.map(|value| format!("\"{name}\": {value}"));
        format!("{{{}}}", kept.chain(changed).collect::<Vec<_>>().join(", "))
    }

    fn good_body(&self) -> String {
        self.body("", None)
    }

    fn takes(&self, field: &str) -> bool {
        self.fields.iter().any(|(name, _)| *name == field)
    }
}

/// What every call with a body refuses.
fn bad_bodies() -> Vec<Bad> {
    let mut bad = Vec::new();
    for call in CALLS {
        let path = || call.path(SIGNER);
        let with = |name: &str, value: &str| call.body(name, Some(value));
        for value in NO_CHAIN {
            bad.push(Bad::post(path(), with("chainId", value)).field("chainId"));
        }
        bad.push(Bad::post(path(), with("chainId", "1")).expect(404, "unknown-signer", None));
        bad.push(Bad::post(path(), with("unknown", "1")).field("unknown"));
        bad.push(Bad::post(path(), with("chain_id", "1")).field("chain_id"));
        let twice = "{\"chainId\": 31337, \"chainId\": 31337}";
        bad.push(Bad::post(path(), twice).field("chainId"));
        for (name, good) in call.fields {
            bad.push(Bad::post(path(), call.body(name, None)).field(name));
            for value in ["null", "1", "true", "[]", "{}", "\"\""] {
                bad.push(Bad::post(path(), with(name, value)).field(name));
            }
            let twice = format!("{{\"{name}\": {good}, \"{name}\": {good}}}");
            bad.push(Bad::post(path(), twice).field(name));
        }
        let whole = call.good_body();
        for body in ["[]", "[null]", "null", "1", "\"text\"", "true", "[null, null, null]"] {
            bad.push(Bad::post(path(), body).field("body"));
        }
        for body in
            ["{", "}", "nonsense", "{\"chainId\": }", "{\"chainId\": 1e999}", " ", "\"\\ud800\""]
        {
            bad.push(Bad::post(path(), body).malformed());
        }
        bad.push(Bad::post(path(), format!("{whole} garbage")).malformed());
        bad.push(Bad::post(path(), format!("{whole}{whole}")).malformed());
        bad.push(Bad::post(path(), [whole.as_bytes(), &[0]].concat()).malformed());
        bad.push(Bad::post(path(), b"{\"chainId\": \"\xff\"}").malformed());
        let blank = vec![b' '; 1_000_000];
        let large = [blank.as_slice(), whole.as_bytes()].concat();
        bad.push(Bad::post(path(), large).expect(413, "body-too-large", None));
        let unsupported = (415, "unsupported-media-type", None);
        for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""] {
            let call = Bad::post(path(), &whole).header("content-type", kind);
            bad.push(call.expect(unsupported.0, unsupported.1, unsupported.2));
        }
        let mut untyped = Bad::post(path(), &whole);
        untyped.headers.clear();
        bad.push(untyped.expect(unsupported.0, unsupported.1, unsupported.2));
        bad.extend(bad_values(&call));
        bad.extend(bad_signers(|signer| Bad::post(call.path(signer), &whole)));
        for method in ["GET", "PUT", "DELETE", "PATCH"] {
            bad.push(Bad::new(method, path()).expect(405, "method-not-allowed", None));
        }
    }
    bad
}

/// Values of the right type that make no sense.
fn bad_values(call: &Call) -> Vec<Bad> {
    let mut bad = Vec::new();
    let mut refuse = |name: &'static str, value: &str| {
        if call.takes(name) {
            let body = call.body(name, Some(&format!("\"{value}\"")));
            bad.push(Bad::post(call.path(SIGNER), body).field(name));
        }
    };
    let hash = hash(0x11);
    for value in
        [&hash[..64], &hash[2..], &format!("{hash}00"), &format!("0x{}", &hash[..64]), "0xzz"]
    {
        refuse("txHash", value);
    }
    for value in [
        "1",
        "not-a-uuid",
        "01890000-0000-7000-8000-00000000000",
        "01890000-0000-7000-8000-00000000000g",
    ] {
        refuse("holdId", value);
    }
    for value in [" ", "\\t\\n", "a\\u0000b", &"x".repeat(1025), &"\u{20ac}".repeat(342)] {
        refuse("reason", value);
    }
    if call.takes("holdId") {
        let bad_nonces = [
            "-1",
            "+1",
            "1.5",
            "abc",
            "0x1",
            "%20",
            "9223372036854775808",
            "99999999999999999999",
            "%ff",
        ];
        for nonce in bad_nonces {
            let path = call.path(SIGNER).replace("/0/", &format!("/{nonce}/"));
            bad.push(Bad::post(path, call.good_body()).field("nonce"));
        }
        let unknown = Bad::post(call.path(SIGNER), call.good_body());
        bad.push(unknown.expect(404, "hold-not-found", None));
    }
    bad
}

/// Values of fields that may be left out.
fn bad_options() -> Vec<Bad> {
    let call = |rest: &str, name: &str, value: &str| {
        let body = format!("{{\"{name}\": {value}}}");
        Bad::post(format!("/api/v1/signers/{SIGNER}/{rest}"), body)
    };
    let mut bad = Vec::new();
    for value in ["0", "1", "\"true\"", "\"\"", "[]", "{}"] {
        bad.push(call("resume", "dryRun", value).field("dryRun"));
        bad.push(call("repair", "apply", value).field("apply"));
    }
    bad.push(call("resume", "apply", "true").field("apply"));
    bad.push(call("repair", "dryRun", "true").field("dryRun"));
    bad.push(call("reconcile", "apply", "true").field("apply"));
    for value in ["1", "true", "\"1\"", "{}"] {
        bad.push(call("repair", "attest", value).field("attest"));
    }
    for value in ["-1", "1.5", "\"1\"", "null", "true", "[]", "9223372036854775808"] {
        bad.push(call("repair", "attest", &format!("[{value}]")).field("attest[0]"));
        bad.push(call("repair", "attest", &format!("[1, {value}]")).field("attest[1]"));
    }
    let many = format!("[{}]", vec!["1"; 1001].join(","));
    bad.push(call("repair", "attest", &many).field("attest"));
    bad
}

fn bad_queries() -> Vec<Bad> {
    let holds = |query: &str| Bad::new("GET", format!("/api/v1/nonces/{SIGNER}?{query}"));
    let lane = |query: &str| Bad::new("GET", format!("/api/v1/signers/{SIGNER}?{query}"));
    let lanes = |query: &str| Bad::new("GET", format!("/api/v1/signers?{query}"));
    let of_lane = |rest: &str, query: &str| {
        Bad::new("GET", format!("/api/v1/signers/{SIGNER}/{rest}?{query}"))
    };
    let doctor = |query: &str| of_lane("doctor", query);
    let history = |query: &str| of_lane("history", query);
    let mut bad = Vec::new();
    for list in [&holds as &dyn Fn(&str) -> Bad, &lanes, &history] {
        for limit in ["0", "abc", "-1", "501", "1.5", "", "99999999999999999999"] {
            bad.push(list(&format!("limit={limit}")).field("limit"));
        }
        for cursor in ["nonsense", "-1", "", "1:nonsense", "31337%3A0x12"] {
            bad.push(list(&format!("cursor={cursor}")).field("cursor"));
        }
        bad.push(list("limit=1&limit=2").field("limit"));
    }
    for call in [&holds as &dyn Fn(&str) -> Bad, &lane, &lanes, &doctor, &history] {
        for chain in ["0", "-1", "abc", "", "9223372036854775808"] {
            bad.push(call(&format!("chainId={chain}")).field("chainId"));
        }
        bad.push(call("unknown=1").field("unknown"));
    }
    for status in ["held", "GONE", ""] {
        bad.push(holds(&format!("status={status}")).field("status"));
    }
    for call in [&holds as &dyn Fn(&str) -> Bad, &lane, &doctor, &history] {
        bad.push(call("chainId=1").expect(404, "unknown-signer", None));
    }
    bad.extend(bad_signers(|signer| Bad::new("GET", format!("/api/v1/nonces/{signer}"))));
    for rest in ["", "/doctor", "/history"] {
        let path = |signer: &str| format!("/api/v1/signers/{signer}{rest}");
        bad.extend(bad_signers(|signer| Bad::new("GET", path(signer))));
    }
    for rest in ["doctor", "history"] {
        for method in ["POST", "PUT", "DELETE", "PATCH"] {
            let call = Bad::new(method, format!("/api/v1/signers/{SIGNER}/{rest}"));
            bad.push(call.expect(405, "method-not-allowed", None));
        }
    }
    bad
}

fn bad_headers_and_paths() -> Vec<Bad> {
    let mut bad = Vec::new();
    for key in ["".to_owned(), "x".repeat(256), "caf\u{e9}".to_owned(), "a\tb".to_owned()] {
        let call = Bad::post(format!("/api/v1/nonces/{SIGNER}/allocate"), "{}");
        bad.push(call.header("idempotency-key", key).field("Idempotency-Key"));
    }
    for path in ["/nothing", "/api", "/api/v1", "/api/v1/nonces", "/api/v2/signers", "/health"] {
        bad.push(Bad::new("GET", path).expect(404, "not-found", None));
    }
    let reads = [
        "/health/live",
        "/health/ready",
        "/metrics",
        "/openapi.json",
        "/api/v1/signers",
        "/",
        "/docs",
    ];
    for path in reads {
        bad.push(Bad::post(path, "{}").expect(405, "method-not-allowed", None));
    }
    bad
}

#[tokio::test]
async fn bad_input_is_refused_with_a_reason_and_nothing_is_written() {
    let solo = Solo::start(&[SIGNER.to_owned()]).await;
    // Something to harm: a hold, and one given back.
    let held = solo.node.allocate(SIGNER).await.ok();
    let given_back = solo.node.allocate(SIGNER).await.ok();
    solo.node.recyclable(&given_back, "not sent").await.ok();
    let before = solo.dump();
    let all = [bad_bodies(), bad_options(), bad_queries(), bad_headers_and_paths()];
    for call in all.into_iter().flatten() {
        call.is_refused(&solo.node).await;
        assert_eq!(solo.dump(), before, "{}", call.what);
    }
    assert_eq!(solo.node.used(&held, &hash(1)).await.ok()["status"], "CONSUMED");
    assert!(!solo.node.process.stderr().contains("ERROR"), "{}", solo.node.process.stderr());
}
