//! What is printed of nodes.

use serde_json::Value;

use crate::cli::table::{self, cell, text};

const HEADER: [&str; 8] = ["NODE", "POOLS", "SERVICES", "JOBS", "CPU", "MEMORY", "HEALTH", "AGE"];

pub(super) fn listed(nodes: &Value, now_ms: u64) -> String {
    let items = nodes["items"].as_array().cloned().unwrap_or_default();
    let row = |node: &Value| {
        vec![
            cell(&node["id"]),
            or_dash(words(&node["pools"])),
            or_dash(services(&node["services"])),
            or_dash(jobs(node)),
            percent(&node["resources"]["cpuUsage"]),
            percent(&node["resources"]["memoryUsage"]),
            health(node),
            age(node, now_ms),
        ]
    };
    table::list(&HEADER, &[3, 4, 5, 7], items.iter().map(row).collect())
}

pub(super) fn shown(node: &Value, now_ms: u64) -> String {
    let mut rows = vec![
        ("node", text(&node["id"])),
        ("status", text(&node["status"])),
        ("health", text(&node["health"])),
        ("pools", words(&node["pools"])),
        ("services", services(&node["services"])),
        ("jobs", jobs(node)),
        ("CPU", percent(&node["resources"]["cpuUsage"])),
        ("GPU", percent(&node["resources"]["gpuUsage"])),
        ("memory", percent(&node["resources"]["memoryUsage"])),
        ("installed", words(&node["installedServices"])),
        ("incarnation", text(&node["incarnation"])),
        ("sequence", text(&node["sequence"])),
        ("last heard of", format!("{} ago", age(node, now_ms))),
    ];
    let features = node["features"].as_object().cloned().unwrap_or_default();
    for (name, value) in &features {
        rows.push((name.as_str(), text(value)));
    }
    table::details(rows)
}

fn or_dash(text: String) -> String {
    if text.is_empty() { "-".to_owned() } else { text }
}

fn words(list: &Value) -> String {
    let list = list.as_array().cloned().unwrap_or_default();
    list.iter().map(text).collect::<Vec<_>>().join(",")
}

/// `asr[en,zh] vad`.
fn services(map: &Value) -> String {
    let map = map.as_object().cloned().unwrap_or_default();
    let one = |(name, what_for): (&String, &Value)| match words(what_for).as_str() {
        "" => name.clone(),
        what_for => format!("{name}[{what_for}]"),
    };
    map.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Running, of how many; nothing for a node that takes none.
fn jobs(node: &Value) -> String {
    let resources = &node["resources"];
    match resources["maxConcurrency"].as_u64() {
        None | Some(0) => String::new(),
        Some(most) => format!("{}/{most}", resources["currentJobs"].as_u64().unwrap_or(0)),
    }
}

/// A share in hundredths; a dash where nothing is said.
fn percent(share: &Value) -> String {
    match share.as_f64() {
        Some(share) if share > 0.0 => format!("{:.0}%", share * 100.0),
        _ => "-".to_owned(),
    }
}

/// One word: what keeps it from being asked, else that nothing does.
fn health(node: &Value) -> String {
    match (text(&node["status"]).as_str(), text(&node["health"])) {
        ("offline", _) => "offline".to_owned(),
        (_, health) => health,
    }
}

/// How long ago it was heard of, by this machine's clock.
fn age(node: &Value, now_ms: u64) -> String {
    let heard = node["lastHeartbeatMs"].as_u64().unwrap_or(0);
    match now_ms.saturating_sub(heard) / 1000 {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7200 => format!("{}m", seconds / 60),
        seconds => format!("{}h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nodes() -> Value {
        json!({ "items": [
            { "id": "asr-1", "status": "online", "health": "Online", "pools": ["1", "2"],
              "services": { "asr": ["en", "zh"], "vad": [] },
              "resources": { "maxConcurrency": 10, "currentJobs": 3, "cpuUsage": 0.5, "gpuUsage": null,
                             "memoryUsage": 0.25 },
              "incarnation": 7, "sequence": 2, "installedServices": ["whisper"],
              "features": { "streaming": true }, "lastHeartbeatMs": 1000 },
            { "id": "stile-a", "status": "offline", "health": "Online", "pools": [], "services": {},
              "resources": { "maxConcurrency": 0, "currentJobs": 0, "cpuUsage": 0.0, "memoryUsage": 0.0 },
              "features": {}, "lastHeartbeatMs": 0 },
        ] })
    }

    #[test]
    fn a_line_for_each_node() {
        let text = listed(&nodes(), 4000);
        let words = |line: usize| text.lines().nth(line).unwrap().split_whitespace().collect();
        let asr: Vec<&str> = words(1);
        assert_eq!(
            asr,
            ["asr-1", "1,2", "asr[en,zh]", "vad", "3/10", "50%", "25%", "Online", "3s"]
        );
        let stile: Vec<&str> = words(2);
        assert_eq!(stile, ["stile-a", "-", "-", "-", "-", "-", "offline", "4s"]);
    }

    #[test]
    fn one_node_with_all_it_says() {
        let text = shown(&nodes()["items"][0], 601_000);
        for part in ["asr-1", "whisper", "streaming", "10m ago", "3/10"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
