//! The bugs as patches.

use std::process::Command;

use crate::root;

/// A patch that does not apply any more finds nothing: the code that it takes out has changed.
#[test]
fn every_planted_bug_can_still_be_planted() {
    let mut stale = Vec::new();
    for entry in std::fs::read_dir(root().join("scripts/planted.d")).unwrap() {
        let patch = entry.unwrap().path();
        if patch.extension().is_none_or(|extension| extension != "patch") {
            continue;
        }
        let mut check = Command::new("git");
        check.args(["apply", "--check"]).arg(patch.canonicalize().unwrap()).current_dir(root());
        let checked = check.output().expect("git");
        if !checked.status.success() {
            let said = String::from_utf8_lossy(&checked.stderr).into_owned();
            stale.push(format!("{}: {said}", patch.display()));
        }
    }
    assert!(stale.is_empty(), "write these anew:\n{}", stale.join("\n"));
}
