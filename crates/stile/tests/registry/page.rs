//! What docs/registry.md shows is what happens.

use serde_json::{Value, json};
use tokio::process::Command;

use super::connect::Wire;
use crate::common::StileProcess;
use crate::{Solo, speech};

const PAGE: &str = include_str!("../../../../docs/registry.md");

/// The start and the job of the page, for which there are others each time.
const INCARNATION: &str = "1763251200123";
const JOB: &str = "01a1df5ec8e07d3b9a6e2b7a5f3c1d20@asr-1";

fn blocks(language: &str) -> Vec<&'static str> {
    let begin = format!("```{language}\n");
    let blocks = PAGE.split(&*begin).skip(1);
    blocks.map(|after| after.split_once("\n```").expect("the end of a block").0).collect()
}

/// Runs commands of the page, and returns what each of them was answered.
async fn run(node: &StileProcess, commands: &str) -> Vec<Value> {
    let careful =
        "set -e; curl() { command curl -sS --fail-with-body --noproxy '*' \"$@\"; echo; }";
    let commands = commands.replace("127.0.0.1:7420", &node.address());
    let shell = Command::new("bash").args(["-c", &format!("{careful}\n{commands}")]).output();
    let done = shell.await.expect("start bash");
    let (said, complained) =
        (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{commands}\n{said}{complained}");
    let answers = said.lines().filter(|line| !line.is_empty());
    answers.map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The names in an answer, with those inside.
fn names(value: &Value, path: &str, found: &mut Vec<String>) {
    for (name, inside) in value.as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        names(inside, &path, found);
        found.push(path);
    }
}

fn assert_alike(shown: &str, answer: &Value) {
    let shown: Value = serde_json::from_str(shown).expect("JSON on the page");
    let (mut of_page, mut of_answer) = (Vec::new(), Vec::new());
    names(&shown, "", &mut of_page);
    names(answer, "", &mut of_answer);
    of_page.sort();
    of_answer.sort();
    assert_eq!(of_page, of_answer);
}

#[tokio::test]
async fn every_command_of_the_page_works_in_its_order() {
    let solo = Solo::start().await;
    let (mut incarnation, mut job) = (INCARNATION.to_owned(), JOB.to_owned());
    let mut answers = Vec::new();
    for block in blocks("sh") {
        let block = block.replace(INCARNATION, &incarnation).replace(JOB, &job);
        for answer in run(&solo.node, &block).await {
            if let Some(number) = answer["incarnation"].as_u64() {
                incarnation = number.to_string();
            }
            if let Some(id) = answer["jobId"].as_str() {
                job = id.to_owned();
            }
            answers.push(answer);
        }
    }
    let [node, of_job] = blocks("json")[..] else { panic!("a node and a job") };
    let first = |name: &str| answers.iter().find(|answer| answer[name].is_string()).unwrap();
    assert_alike(node, first("id"));
    assert_alike(of_job, first("jobId"));
    let found = answers.iter().find(|answer| answer["leftOut"].is_object()).unwrap();
    assert_eq!(found["items"][0]["id"], "asr-1");
}

#[tokio::test]
async fn every_message_of_the_page_is_answered_as_it_says() {
    let solo = Solo::start().await;
    let mut wire = Wire::open(&solo.node, None).await.unwrap();
    let talk = blocks("text").into_iter().find(|block| block.starts_with("→ ")).unwrap();
    let lines: Vec<&str> = talk.lines().collect();
    let mut exchanged = 0;
    for pair in lines.windows(2) {
        let (Some(said), Some(answered)) = (pair[0].strip_prefix("→ "), pair[1].strip_prefix("← "))
        else {
            continue;
        };
        let mut said: Value = serde_json::from_str(said).expect("JSON on the page");
        if said["type"] == "complete" {
            let wanted = json!({ "session": "s", "services": ["asr:zh"] });
            said["jobId"] =
                solo.node.post("/api/v1/dispatch", wanted).await.json()["jobId"].clone();
        }
        let answer = wire.ask(said.clone()).await;
        for name in ["type", "ref"] {
            let part = format!("\"{name}\":{}", answer[name]);
            assert!(answered.contains(&part), "{answered} has no {part}: {answer}");
        }
        exchanged += 1;
    }
    assert_eq!(exchanged, 3);
    solo.node.put("/api/v1/nodes/asr-2", speech(1)).await.ok();
}
