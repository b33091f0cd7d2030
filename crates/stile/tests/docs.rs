//! The house rules that a test can hold: documents that match the code, and crates that know only
//! what they may.
//!
//! | file | what is checked |
//! |---|---|
//! | `pages` | generated pages, error codes, the README's example |
//! | `edges` | which crate knows which, and what each does without |
//! | `planted` | the bugs as patches |
//! | `security` | the tests that SECURITY.md names |
//! | `supply` | the list of parts, and advisories about them |
//! | `alerts` | the Prometheus alerts and their metrics |

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[path = "docs/alerts.rs"]
mod alerts;
#[path = "docs/edges.rs"]
mod edges;
#[path = "docs/pages.rs"]
mod pages;
#[path = "docs/planted.rs"]
mod planted;
#[path = "docs/security.rs"]
mod security;
#[path = "docs/supply.rs"]
mod supply;

use std::path::{Path, PathBuf};

/// The workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(file: impl AsRef<Path>) -> String {
    let file = root().join(file);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}
