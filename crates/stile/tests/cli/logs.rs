//! What the log says, and what it never says.

use serde_json::{Value, json};
use stile_domain::Timestamp;

use crate::Place;
use crate::common::{NodeOptions, SIGNER, StileProcess, hash};

/// Each line of a JSON log.
fn lines(node: &StileProcess) -> Vec<Value> {
    let log = node.process.stderr();
    let (whole, _unfinished) = log.rsplit_once('\n').unwrap();
    whole
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

fn find<'l>(lines: &'l [Value], message: &str) -> &'l Value {
    let found = lines.iter().find(|line| line["message"] == message);
    found.unwrap_or_else(|| panic!("no line {message:?} in {lines:#?}"))
}

#[tokio::test]
async fn json_logs_carry_the_lane_the_node_and_the_token() {
    let directory = tempfile::tempdir().unwrap();
    let options = NodeOptions::sqlite(&directory.path().join("stile.db"), &[SIGNER.to_owned()])
        .set("log.format", "json")
        .set("log.level", "debug");
    let node = options.start().await;
    let hold = node.allocate(SIGNER).await.ok();
    node.used(&hold, &hash(1)).await.ok();
    let lines = lines(&node);
    for line in &lines {
        for part in ["timestamp", "level", "message", "target"] {
            assert!(line[part].is_string(), "no {part}: {line}");
        }
    }
    let lane = json!([SIGNER, "31337", "solo"]);
    let of = |line: &Value| json!([line["signer"], line["chain"], line["node"]]);
    let acquired = find(&lines, "lane acquired");
    assert_eq!((of(acquired), &acquired["token"]), (lane.clone(), &json!(1)));
    let time = |value: &Value| value.as_str().unwrap().parse::<Timestamp>().unwrap();
    let expires_at = &node.signer(SIGNER).await["expiresAt"];
    assert!(time(&acquired["expires_at"]) <= time(expires_at), "{acquired} {expires_at}");
    let written = find(&lines, "fenced write");
    assert_eq!((of(written), &written["token"]), (lane.clone(), &json!(1)));
    assert_eq!((&written["op"], &written["level"]), (&json!("allocate"), &json!("DEBUG")));
    let marked = find(&lines, "mark");
    assert_eq!((of(marked), &marked["verdict"]), (lane, &json!("used")));
    let stopped = node.terminate().await;
    assert!(stopped.stderr.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    assert_eq!(stopped.stdout, "", "standard output is for data");
}

/// A key that nobody else has, in the spellings it might leak in.
const KEY: &str = "c0ffee5eedc0ffee5eedc0ffee5eedc0ffee5eedc0ffee5eedc0ffee5eed0042";

fn assert_no_key(text: &str) {
    assert!(!text.to_lowercase().contains("c0ffee5eed"), "the key leaked: {text}");
}

#[tokio::test]
async fn a_private_key_never_shows() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("stile.db");
    for (format, key) in [("text", format!("0x{KEY}")), ("json", KEY.to_uppercase())] {
        let options = NodeOptions::sqlite(&file, &[])
            .key_in_environment("CANARY", &key)
            .set("log.level", "trace")
            .set("log.format", format);
        let node = options.start().await;
        let listed = node.get("/api/v1/signers").await;
        let signer = listed.ok()["items"][0]["signer"].as_str().unwrap().to_owned();
        let hold = node.allocate(&signer).await;
        let used = node.used(&hold.ok(), &hash(1)).await;
        let paths = ["/metrics", "/health/ready", "/openapi.json", "/nothing"];
        let mut answers = vec![listed, hold, used, node.allocate(SIGNER).await];
        for path in paths {
            answers.push(node.get(path).await);
        }
        for answer in answers {
            assert_no_key(&answer.text);
            assert_no_key(&format!("{:?}", answer.headers));
        }
        let ended = node.terminate().await;
        assert_no_key(&ended.stdout);
        assert_no_key(&ended.stderr);
        assert!(ended.stderr.contains(&signer), "the log was on");
    }
}

#[tokio::test]
async fn a_key_that_is_none_is_refused_without_being_repeated() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("stile.db");
    let too_long = format!("0x{KEY}00");
    let options = NodeOptions::sqlite(&file, &[]).key_in_environment("CANARY", &too_long);
    let refused = options.refused().await;
    assert!(refused.failure().contains("env:CANARY is not a private key"), "{refused:?}");
    assert_no_key(&refused.stderr);

    let written = Place::new(&format!("[[signer]]\nkey = \"0x{KEY}\"\n"));
    for command in [["config", "check"], ["config", "show"]] {
        let refused = written.run(&command).await;
        assert!(refused.failure().contains("signer[0].key"), "{refused:?}");
        assert_no_key(&refused.stderr);
    }
}
