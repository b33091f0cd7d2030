//! Which crate knows which, and what each does without.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::{read, root};

/// Every crate and the crates it may depend on: those before it, as far as they do not know each
/// other. Whoever tests may use `testkit`.
const EDGES: [(&str, &[&str]); 11] = [
    ("domain", &[]),
    ("store", &["domain"]),
    ("chain", &["domain"]),
    ("tasks", &[]),
    // Knows nothing of Stile: other schedulers may use it as it is.
    ("registry", &["tasks"]),
    // A chain of its own: what it answers is read by `chain`, as if it were anybody's.
    ("devchain", &[]),
    ("engine", &["domain", "store", "chain", "registry", "tasks"]),
    ("server", &["domain", "store", "chain", "registry", "engine"]),
    // `stile bench` measures on servers that testkit starts.
    ("stile", &["domain", "store", "chain", "registry", "devchain", "engine", "server", "testkit"]),
    ("testkit", &[]),
    // Knows none of those whose history it checks.
    ("chaos", &["testkit"]),
];

/// What crates know in their tests only, beside `testkit`.
const TEST_EDGES: [(&str, &[&str]); 2] = [
    // A short run under faults is one of the tests.
    ("stile", &["chaos"]),
    // Whether its refusals are understood is tested with the client that has to.
    ("devchain", &["domain", "chain"]),
];

/// What connects to a database, and the crates that may.
const DRIVERS: [(&str, &[&str]); 5] = [
    ("rusqlite", &["store"]),
    ("deadpool-postgres", &["store"]),
    ("refinery", &["store"]),
    ("redis", &["registry"]),
    // testkit asks the servers it starts whether they are up; chaos reads what nodes have written.
    ("tokio-postgres", &["store", "testkit", "chaos"]),
];

/// The names in a crate's tables of dependencies, those for single platforms included.
fn dependencies(manifest: &toml::Table, table: &str) -> BTreeSet<String> {
    let platforms = manifest.get("target").and_then(toml::Value::as_table);
    let platforms = platforms.into_iter().flat_map(|table| table.values());
    let places = platforms.filter_map(toml::Value::as_table).chain([manifest]);
    let tables = places.filter_map(|place| place.get(table)?.as_table());
    tables.flat_map(|table| table.keys().cloned()).collect()
}

/// A crate of ours by the name of its directory; `None` for somebody else's.
fn ours(package: &str) -> Option<&str> {
    let name = package.strip_prefix("stile-").unwrap_or(package);
    EDGES.iter().map(|(known, _)| *known).find(|known| *known == name)
}

#[test]
fn dependencies_point_one_way() {
    let crates = std::fs::read_dir(root().join("crates")).unwrap();
    let crates = crates.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let crates: BTreeSet<String> = crates.collect();
    let known: BTreeSet<String> = EDGES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(crates, known, "a new crate needs its place in this table");
    for (name, allowed) in EDGES {
        let tested = TEST_EDGES.iter().find(|(tester, _)| *tester == name);
        let tested: Vec<&str> = tested.map_or_else(Vec::new, |(_, known)| known.to_vec());
        let manifest: toml::Table = read(format!("crates/{name}/Cargo.toml")).parse().unwrap();
        for (table, also) in [
            ("dependencies", vec![]),
            ("build-dependencies", vec![]),
            ("dev-dependencies", [vec!["testkit"], tested].concat()),
        ] {
            for package in dependencies(&manifest, table) {
                if let Some(other) = ours(&package) {
                    let fine = allowed.contains(&other) || also.contains(&other);
                    assert!(fine, "{name} must not know {other}, but does by its [{table}]");
                }
            }
        }
        for package in dependencies(&manifest, "dependencies") {
            let driver = DRIVERS.iter().find(|(driver, _)| *driver == package);
            let fine = driver.is_none_or(|(_, allowed)| allowed.contains(&name));
            assert!(fine, "{name} must not talk to a database, but depends on {package}");
        }
    }
}

/// The sources of a crate.
fn sources(name: &str) -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    let mut waiting = vec![Path::new("crates").join(name).join("src")];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(root().join(&directory)).unwrap() {
            let entry = entry.unwrap();
            let path = directory.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                waiting.push(path);
            } else {
                files.push((path.clone(), read(path)));
            }
        }
    }
    assert!(!files.is_empty(), "no sources of {name}");
    files
}

/// Lines of code, without what is a comment to its end.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line));
    lines.map(|(number, line)| (number, line.split("//").next().unwrap_or(line)))
}

fn is_sql(line: &str) -> bool {
    let statements = ["INSERT INTO", "UPDATE lane", "UPDATE nonce", "DELETE FROM", "CREATE TABLE"];
    let selects = line.split_once("SELECT ").is_some_and(|(_, rest)| rest.contains(" FROM "));
    selects || statements.iter().any(|statement| line.contains(statement))
}

#[test]
fn only_the_store_knows_sql() {
    // `chaos` looks at the tables past the store, and only looks.
    for (name, _) in EDGES.iter().filter(|(name, _)| !["store", "chaos"].contains(name)) {
        for (file, text) in sources(name) {
            for (number, line) in code_lines(&text) {
                assert!(
                    !is_sql(line),
                    "{}:{number}: SQL outside the store: {line}",
                    file.display()
                );
            }
        }
    }
    let sql = sources("store").into_iter().filter(|(_, text)| text.lines().any(is_sql)).count();
    assert!(sql > 10, "what SQL looks like is known here: {sql} files of the store have some");
}

#[test]
fn the_domain_reads_no_clock_and_waits_for_nothing() {
    let absent =
        ["Instant", "SystemTime", "Timestamp::now", "tokio", "async fn", "async move", ".await"];
    for (file, text) in sources("domain") {
        for (number, line) in code_lines(&text) {
            for word in absent {
                assert!(!line.contains(word), "{}:{number}: {word}: {line}", file.display());
            }
        }
    }
}
