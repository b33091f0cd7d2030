//! SECURITY.md names tests, and they are there.

use std::collections::BTreeSet;
use std::path::Path;

use crate::{read, root};

/// The names of all functions in the sources and tests of the crates.
fn functions() -> BTreeSet<String> {
    fn walk(directory: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                for after in text.split("fn ").skip(1) {
                    let is_name = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
                    found.insert(after.chars().take_while(is_name).collect());
                }
            }
        }
    }
    let mut found = BTreeSet::new();
    walk(&root().join("crates"), &mut found);
    found
}

#[test]
fn every_test_that_the_threat_model_names_exists() {
    let (page, functions) = (read("SECURITY.md"), functions());
    let quoted = page.split('`').skip(1).step_by(2);
    // Names of three words and more: what else is quoted has dots, slashes, spaces, or is shorter.
    let is_name = |it: &&str| {
        it.matches('_').count() >= 3
            && it.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    let named: BTreeSet<&str> = quoted.filter(is_name).collect();
    assert!(named.len() >= 30, "{} are too few to be all", named.len());
    let missing: Vec<_> = named.iter().filter(|it| !functions.contains(**it)).collect();
    assert!(missing.is_empty(), "SECURITY.md names tests that do not exist: {missing:?}");
}

#[test]
fn every_party_has_its_worst_and_the_tests_that_bound_it() {
    let page = read("SECURITY.md");
    for party in [
        "The database",
        "Redis",
        "Chain endpoints",
        "The signer",
        "Other nodes",
        "Callers",
        "Operators",
        "The host",
        "Backups",
        "Browsers",
        "Dependencies",
    ] {
        let section = page.split(&format!("### {party}\n")).nth(1);
        let section = section.unwrap_or_else(|| panic!("there is no section on {party}"));
        let section = section.split("\n### ").next().unwrap().split("\n## ").next().unwrap();
        for part in ["**Trusted with**", "**At worst**", "**Not more**"] {
            assert!(section.contains(part), "{party}: {part} is missing");
        }
    }
    assert!(read("README.md").contains("(SECURITY.md)"), "the README leads there");
}
