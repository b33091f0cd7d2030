//! What Stile is made of: the list of its parts, and whether any of them is known to be bad.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::{read, root};

fn sbom() -> Vec<u8> {
    let made = Command::new(root().join("scripts/sbom")).output().expect("run scripts/sbom");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    made.stdout
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}"))
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}"))
}

/// Has these keys, and none but these and the others.
fn has_keys(object: &Value, required: &[&str], others: &[&str]) {
    let found: BTreeSet<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    for key in required {
        assert!(found.contains(key), "{key} is missing: {object}");
    }
    for key in found {
        assert!(required.contains(&key) || others.contains(&key), "{key} is too much: {object}");
    }
}

/// As the schema of CycloneDX 1.6 has it, for what is in it.
#[test]
fn the_list_of_parts_is_as_its_format_wants_it() {
    let made = sbom();
    assert_eq!(made, sbom(), "it is the same each time");
    let document: Value = serde_json::from_slice(&made).unwrap();
    let required = ["bomFormat", "specVersion", "version", "metadata", "components"];
    has_keys(&document, &required, &["$schema", "serialNumber", "dependencies"]);
    assert_eq!(
        (text(&document["bomFormat"]), text(&document["specVersion"])),
        ("CycloneDX", "1.6")
    );
    assert_eq!(document["version"], 1);
    let serial = text(&document["serialNumber"]).strip_prefix("urn:uuid:").unwrap();
    let groups: Vec<usize> = serial.split('-').map(str::len).collect();
    assert_eq!(groups, [8, 4, 4, 4, 12]);
    assert!(serial.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f' | b'-')), "{serial}");
    let main = &document["metadata"]["component"];
    assert_eq!((text(&main["type"]), text(&main["name"])), ("application", "stile"));

    let mut references = BTreeSet::new();
    for component in list(&document["components"]).iter().chain([main]) {
        let others = ["bom-ref", "version", "purl", "hashes", "licenses"];
        has_keys(component, &["type", "name"], &others);
        assert!(references.insert(text(&component["bom-ref"])), "twice: {component}");
        for hash in component.get("hashes").map(list).into_iter().flatten() {
            has_keys(hash, &["alg", "content"], &[]);
            assert_eq!((text(&hash["alg"]), text(&hash["content"]).len()), ("SHA-256", 64));
        }
        assert_eq!(list(&component["licenses"]).len(), 1, "{component}");
        assert!(!text(&component["licenses"][0]["expression"]).contains('/'), "{component}");
    }
    let mut described = BTreeSet::new();
    for dependency in list(&document["dependencies"]) {
        has_keys(dependency, &["ref", "dependsOn"], &[]);
        assert!(described.insert(text(&dependency["ref"])), "twice: {dependency}");
        let needed = list(&dependency["dependsOn"]).iter().map(text);
        assert!(needed.into_iter().all(|it| references.contains(it)), "{dependency}");
    }
    assert_eq!(described, references);
}

#[test]
fn the_list_of_parts_has_what_is_locked_and_nothing_of_the_tests() {
    let document: Value = serde_json::from_slice(&sbom()).unwrap();
    let lock: toml::Table = read("Cargo.lock").parse().unwrap();
    let locked: BTreeMap<(String, String), String> = lock["package"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| {
            let text = |key: &str| it.get(key)?.as_str().map(str::to_owned);
            Some(((text("name")?, text("version")?), text("checksum")?))
        })
        .collect();
    let mut names = BTreeSet::new();
    for component in list(&document["components"]) {
        let (name, version) = (text(&component["name"]), text(&component["version"]));
        names.insert(name);
        if let Some(purl) = component.get("purl") {
            assert_eq!(text(purl), format!("pkg:cargo/{name}@{}", version.replace('+', "%2B")));
            let checksum = &locked[&(name.to_owned(), version.to_owned())];
            assert_eq!(text(&component["hashes"][0]["content"]), checksum, "{component}");
        }
    }
    for part in ["stile-domain", "stile-server", "tokio", "axum", "alloy", "rustls"] {
        assert!(names.contains(part), "{part}");
    }
    for test_only in ["criterion", "proptest", "chaos"] {
        assert!(!names.contains(test_only), "{test_only}");
    }
}

/// Runs the check with a `cargo-deny` that does as it is told, and no copy of the advisories.
fn advisories(deny: Option<&str>) -> Output {
    let place = tempfile::tempdir().unwrap();
    // The script looks for the program in the tree too.
    let scripts = place.path().join("scripts");
    std::fs::create_dir(&scripts).unwrap();
    std::fs::copy(root().join("scripts/advisories"), scripts.join("advisories")).unwrap();
    if let Some(deny) = deny {
        let tools = place.path().join("target/tools/bin");
        std::fs::create_dir_all(&tools).unwrap();
        write_program(&tools.join("cargo-deny"), deny);
    }
    let bash = Command::new("bash")
        .arg(scripts.join("advisories"))
        .env("PATH", "/usr/bin:/bin")
        .env("CARGO_HOME", place.path())
        .output();
    bash.expect("run bash")
}

fn write_program(file: &Path, body: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(file, format!("#!/bin/sh\n{body}\n")).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn advisories_are_checked_where_they_can_be_had_and_else_that_is_said() {
    let lines = |output: &Output| String::from_utf8_lossy(&output.stdout).lines().count();
    let away = advisories(Some("case \"$*\" in *fetch*) exit 1;; esac"));
    let said = String::from_utf8_lossy(&away.stdout);
    assert!(away.status.success() && said.contains("advisories skipped: https://"), "{away:?}");
    assert_eq!(lines(&away), 1, "{away:?}");
    let missing = advisories(None);
    let said = String::from_utf8_lossy(&missing.stdout);
    assert!(missing.status.success() && said.contains("cargo-deny is missing"), "{missing:?}");
    assert_eq!(lines(&missing), 1, "{missing:?}");
    let clean = advisories(Some("exit 0"));
    let said = String::from_utf8_lossy(&clean.stdout);
    assert!(clean.status.success() && said.contains("fetched now"), "{clean:?}");
    let bad = advisories(Some("case \"$*\" in *check*) echo RUSTSEC-0000-0000; exit 1;; esac"));
    assert!(!bad.status.success(), "{bad:?}");
    assert!(read("scripts/test").contains("scripts/advisories"), "it is part of the tests");
}
