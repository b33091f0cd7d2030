//! What is said about a file as a whole.

use std::path::Path;

use stile::config::{Config, Origin};

use super::{complaints, environment, parse_with};

#[test]
fn all_problems_at_once_in_order() {
    let text = r#"
[server]
listen = "everywhere"
[nonce]
mode = "fast"
[nonce.lease]
duratoin = "10s"
[store]
lock_timeout = "9s"
[[chain]]
id = 0
"#;
    let errors = parse_with(text, &[("STILE__NONCE__CALLER_WAIT", "soon")]).expect_err("problems");
    let keys: Vec<_> =
        errors.problems().iter().filter_map(|problem| problem.key.as_deref()).collect();
    assert_eq!(
        keys,
        [
            "server.listen",
            "nonce.mode",
            "nonce.lease.duratoin",
            "store.lock_timeout",
            "chain[0].id",
            "nonce.caller_wait"
        ]
    );
    let lines: Vec<_> = errors.problems().iter().map(|problem| problem.origin.clone()).collect();
    let line = |line| Origin::Line { name: "stile.toml".to_owned(), line };
    let variable = Origin::Variable { name: "STILE__NONCE__CALLER_WAIT".to_owned() };
    assert_eq!(lines, [line(3), line(5), line(7), line(9), line(11), variable]);
}

#[test]
fn a_syntax_error_has_line_and_column() {
    assert_eq!(
        complaints("[nonce]\nmode = quick\n"),
        ["stile.toml:2:8: string values must be quoted, expected literal string"]
    );
}

#[test]
fn a_key_given_twice() {
    assert_eq!(complaints("[node]\nid = \"a\"\nid = \"b\""), ["stile.toml:3:1: duplicate key"]);
}

#[test]
fn a_file_that_cannot_be_read() {
    let load =
        |path: &Path| Config::load(Some(path), environment(&[])).expect_err("no file").to_string();
    assert_eq!(load(Path::new("nowhere/stile.toml")), "nowhere/stile.toml: there is no such file");

    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("stile.toml");
    std::fs::write(&path, b"\xff\xfe").expect("a file");
    assert_eq!(load(&path), format!("{}: is not UTF-8 text", path.display()));
}

#[test]
fn a_file_that_cannot_be_read_does_not_hide_the_variables() {
    let variables = environment(&[("STILE__LOG__LEVEL", "loud")]);
    let errors = Config::load(Some(Path::new("nowhere.toml")), variables).expect_err("problems");
    assert_eq!(
        errors.to_string(),
        "nowhere.toml: there is no such file\n\
         environment STILE__LOG__LEVEL: log.level: \
         must be \"error\", \"warn\", \"info\", \"debug\" or \"trace\", not \"loud\""
    );
}
