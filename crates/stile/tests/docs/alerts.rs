//! The Prometheus alerts: they do what they say, and ask only for metrics that there are.

use std::collections::HashSet;
use std::process::Command;

use stile_engine::metrics::METRICS;

use crate::{read, root};

const RULES: &str = "deploy/prometheus/stile.rules.yml";
const TESTS: &str = "deploy/prometheus/stile.rules.test.yml";

/// Prometheus' own tool, which `scripts/test` installs.
fn promtool(arguments: [&str; 3]) {
    let output = Command::new("promtool").args(arguments).current_dir(root()).output();
    let output = output.unwrap_or_else(|error| {
        panic!("promtool cannot be started ({error}); it is in the package prometheus")
    });
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "promtool {arguments:?}:\n{said}{complained}");
}

/// Each alert of the rules: its name, and everything that is said of it.
fn alerts(rules: &str) -> Vec<(&str, &str)> {
    let alerts = rules.split("- alert: ").skip(1);
    alerts.map(|alert| alert.split_once('\n').expect("a name, and more")).collect()
}

/// Every name of a metric of Stile's in a text.
fn metrics(text: &str) -> HashSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("stile_")).collect()
}

#[test]
fn alerts_are_well_formed_and_do_what_they_say() {
    promtool(["check", "rules", RULES]);
    promtool(["test", "rules", TESTS]);
}

#[test]
fn alerts_ask_for_metrics_that_there_are() {
    let mut known: HashSet<&str> = METRICS.iter().map(|(name, ..)| *name).collect();
    known.extend(stile_registry::metrics::METRICS.iter().map(|(name, ..)| *name));
    for file in [RULES, TESTS] {
        let text = read(file);
        let named = metrics(&text);
        assert!(!named.is_empty(), "{file} names no metric");
        for name in named {
            assert!(known.contains(name), "{file} names {name}, which docs/metrics.md does not");
        }
    }
}

#[test]
fn every_alert_is_tested_and_says_what_to_do() {
    let (rules, tests) = (read(RULES), read(TESTS));
    let alerts = alerts(&rules);
    assert!(!alerts.is_empty());
    for (name, text) in alerts {
        for part in ["severity: ", "summary: ", "action: "] {
            assert!(text.contains(part), "{name} lacks {part}");
        }
        let commands = [
            "`stile signer doctor ",
            "`stile signer restored ",
            "`stile chain show`",
            "`stile node list`",
        ];
        assert!(commands.iter().any(|it| text.contains(it)), "{name} names no command");
        let fires = format!("alertname: {name}\n        exp_alerts:\n          - exp_labels:");
        assert!(tests.contains(&fires), "{name} is not tested to fire");
        let silent = format!("alertname: {name}, exp_alerts: [] }}");
        assert!(tests.contains(&silent), "{name} is not tested to be silent");
    }
}
