//! The binary at a terminal.
//!
//! | file | what is checked |
//! |---|---|
//! | `chain` | `stile chain` |
//! | `config` | `stile config check` and `show` |
//! | `migrate` | `stile migrate`, and schemas that do not fit |
//! | `refusals` | why `stile serve` does not start |
//! | `dev` | `stile dev` |
//! | `bench` | that `stile bench` measures everything, not what it measures |
//! | `tx` | `stile tx` and `stile signer`, against a node on a real chain |
//! | `logs` | what the log says, and what it never says |

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod common;

#[path = "cli/bench.rs"]
mod bench;
#[path = "cli/chain.rs"]
mod chain;
#[path = "cli/config.rs"]
mod config;
#[path = "cli/dev.rs"]
mod dev;
#[path = "cli/logs.rs"]
mod logs;
#[path = "cli/migrate.rs"]
mod migrate;
#[path = "cli/refusals.rs"]
mod refusals;
#[path = "cli/tx.rs"]
mod tx;

use common::{Finished, run_in};
use tempfile::TempDir;

/// A directory with a configuration file in it.
struct Place {
    directory: TempDir,
}

impl Place {
    fn new(configuration: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("stile.toml"), configuration).unwrap();
        Self { directory }
    }

    /// Runs a command there with the file.
    async fn run(&self, command: &[&str]) -> Finished {
        run_in(self.directory.path(), &[command, &["--config", "stile.toml"]].concat()).await
    }
}
