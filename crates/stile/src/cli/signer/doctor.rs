//! `stile signer doctor`: why a signer does not move.

use std::collections::HashMap;

use serde_json::Value;

use super::Which;
use crate::cli::Failure;
use crate::cli::table::{self, text};

pub(super) async fn doctor(
    which: Which,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    let diagnosis = which.get("/doctor", &[], environment).await?;
    table::print(&if which.server.json { table::json(&diagnosis) } else { shown(&diagnosis) })
}

fn shown(diagnosis: &Value) -> String {
    let facts = facts(&diagnosis["facts"]);
    if facts.is_empty() {
        findings(diagnosis)
    } else {
        format!("{}\n\n{facts}", findings(diagnosis))
    }
}

/// How the signer stands in a sentence, then what was found, each with what can be done about it.
pub(super) fn findings(diagnosis: &Value) -> String {
    let found: Vec<&Value> = diagnosis["findings"].as_array().into_iter().flatten().collect();
    let summary = &diagnosis["summary"];
    // Where it is the first finding in its own words, once is enough.
    let is_first = found.first().is_some_and(|first| first["words"] == *summary);
    let mut parts: Vec<String> = (!is_first).then(|| text(summary)).into_iter().collect();
    parts.extend(found.into_iter().map(finding));
    parts.join("\n\n")
}

fn finding(finding: &Value) -> String {
    let words = format!("{}: {}", text(&finding["severity"]), text(&finding["words"]));
    match &finding["remedy"] {
        Value::Null => words,
        remedy => format!("{words}\n  {}{}", text(&remedy["words"]), who(remedy)),
    }
}

/// Who does it, where the words do not say.
fn who(remedy: &Value) -> &'static str {
    match remedy["kind"].as_str() {
        _ if remedy["automatic"] == true => " (Stile does it by itself)",
        Some("resume") => " (`stile signer resume`)",
        _ => "",
    }
}

/// What was looked at, whatever it is: a line for each fact, and what belongs together below one
/// another.
fn facts(facts: &Value) -> String {
    let mut rows = Vec::new();
    collect("", facts, &mut rows);
    table::details(rows.iter().map(|(name, value)| (name.as_str(), value.clone())).collect())
}

fn collect(name: &str, value: &Value, rows: &mut Vec<(String, String)>) {
    let within =
        |part: &str| if name.is_empty() { words(part) } else { format!("{name}, {}", words(part)) };
    match value {
        Value::Object(parts) => {
            for (part, value) in parts {
                collect(&within(part), value, rows);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for (place, item) in items.iter().enumerate() {
                collect(&within(&(place + 1).to_string()), item, rows);
            }
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(text).collect();
            rows.push((name.to_owned(), items.join(", ")));
        }
        value => rows.push((name.to_owned(), text(value))),
    }
}

/// `chainNonce` as people write it.
fn words(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_diagnosis_is_read_from_the_top() {
        let diagnosis = json!({
            "healthy": false,
            "summary": "nothing moves: nonce 7 is missing",
            "findings": [
                { "code": "gap", "severity": "blocked", "words": "nobody has nonce 7",
                  "remedy": { "kind": "fill", "words": "an empty transaction is made for it",
                              "needsAttestation": false, "automatic": true } },
                { "code": "paused", "severity": "blocked", "words": "it is paused",
                  "remedy": { "kind": "resume", "words": "give out nonces again",
                              "needsAttestation": false, "automatic": false } },
                { "code": "held", "severity": "warning", "words": "nonce 8 is with a caller",
                  "remedy": null },
            ],
            "facts": {
                "holder": null,
                "chainNonce": 7,
                "gaps": [7, 9],
                "endpoints": [{ "name": "a:1", "pendingNonce": 7 }, { "name": "b:2" }],
            },
        });
        let shown = shown(&diagnosis);
        let expected = [
            "nothing moves: nonce 7 is missing\n",
            "blocked: nobody has nonce 7",
            "  an empty transaction is made for it (Stile does it by itself)\n",
            "blocked: it is paused",
            "  give out nonces again (`stile signer resume`)\n",
            "warning: nonce 8 is with a caller\n",
        ];
        assert!(shown.starts_with(&expected.join("\n")), "{shown}");
        let lines: Vec<Vec<&str>> =
            shown.lines().map(|line| line.split_whitespace().collect()).collect();
        for line in [
            vec!["chain", "nonce", "7"],
            vec!["gaps", "7,", "9"],
            vec!["endpoints,", "1,", "pending", "nonce", "7"],
            vec!["endpoints,", "2,", "name", "b:2"],
        ] {
            assert!(lines.contains(&line), "{line:?}: {shown}");
        }
        assert!(!shown.contains("holder"), "what is not known is left out: {shown}");

        let finding = json!({ "severity": "blocked", "words": "it is paused", "remedy": null });
        let once = json!({ "summary": "it is paused", "findings": [finding] });
        assert_eq!(findings(&once), "blocked: it is paused");
    }
}
