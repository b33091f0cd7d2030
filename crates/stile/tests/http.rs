//! One node on SQLite, over HTTP.
//!
//! | file | what is checked |
//! |---|---|
//! | `bad` | a call that must be refused |
//! | `bad_input` | every call refuses what it cannot use, says which field, and writes nothing |
//! | `bad_tx` | the same for the calls about transactions |
//! | `care` | what is done about a signer that does not move |
//! | `chains` | chains, for whoever may see them |
//! | `enough` | gas that is enough to begin with, and money that is enough for the queue |
//! | `holds` | allocate and mark |
//! | `lane_keys` | a key is for the chains that its entry names |
//! | `large_numbers` | numbers that JavaScript rounds |
//! | `lanes` | pause, resume, lists and pages |
//! | `limits` | fees and gas above what the chain allows |
//! | `operations` | health, metrics, the OpenAPI document |
//! | `replace` | withdrawing transactions, and having them mined sooner |
//! | `schemathesis` | answers are as the OpenAPI document says, whatever is asked |

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod common;

#[path = "http/bad.rs"]
mod bad;
#[path = "http/bad_input.rs"]
mod bad_input;
#[path = "http/bad_tx.rs"]
mod bad_tx;
#[path = "http/care.rs"]
mod care;
#[path = "http/chains.rs"]
mod chains;
#[path = "http/enough.rs"]
mod enough;
#[path = "http/holds.rs"]
mod holds;
#[path = "http/lane_keys.rs"]
mod lane_keys;
#[path = "http/lanes.rs"]
mod lanes;
#[path = "http/large_numbers.rs"]
mod large_numbers;
#[path = "http/limits.rs"]
mod limits;
#[path = "http/operations.rs"]
mod operations;
#[path = "http/replace.rs"]
mod replace;
#[path = "http/schemathesis.rs"]
mod schemathesis;

use common::{NodeOptions, StileProcess};
use tempfile::TempDir;

/// A node and the directory that its database is in.
struct Solo {
    node: StileProcess,
    directory: TempDir,
}

impl Solo {
    async fn start(signers: &[String]) -> Self {
        Self::start_with(signers, |options| options).await
    }

    async fn start_with(
        signers: &[String],
        change: impl FnOnce(NodeOptions) -> NodeOptions,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        // Nothing is renewed and no hold runs out while a test looks at the database.
        let options = NodeOptions::sqlite(&directory.path().join("stile.db"), signers)
            .lease("1h", "20m")
            .set("nonce.hold_timeout", "1h");
        Self { node: change(options).start().await, directory }
    }

    /// Everything in the database.
    fn dump(&self) -> String {
        common::dump_sqlite(&self.directory.path().join("stile.db"))
    }
}
