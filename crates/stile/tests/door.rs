//! What reaches a server before anybody is asked who they are.
//!
//! | file | what is checked |
//! |---|---|
//! | `browsers` | calls that pages of other sites make, and names that anybody can point here |
//! | `connections` | heads and bodies that do not come, idle connections, and too many of them |
//! | `rates` | calls by key and by address, and wrong keys |
//! | `streams` | many listeners, one reader: none misses an event, none gets one twice |
//! | `tls` | TLS in the process: HTTP/2, new certificates, certificates of callers |
//! | `untaken` | answers over HTTP/2 that nobody takes |
//! | `stopping` | who is waited for when a server stops |
//! | `health` | what is told to those who have no key |

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[macro_use]
mod common;

#[path = "keys/support.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod support;

#[path = "door/browsers.rs"]
mod browsers;
#[path = "door/connections.rs"]
mod connections;
#[path = "door/health.rs"]
mod health;
#[path = "door/rates.rs"]
mod rates;
#[path = "door/stopping.rs"]
mod stopping;
#[path = "door/streams.rs"]
mod streams;
#[path = "door/tls.rs"]
mod tls;
#[path = "door/untaken.rs"]
mod untaken;

use common::{NodeOptions, SIGNER, StileProcess};
use tempfile::TempDir;

/// A node on SQLite, and the directory that its database is in.
struct Solo {
    node: StileProcess,
    _directory: TempDir,
}

impl Solo {
    async fn start(change: impl FnOnce(NodeOptions) -> NodeOptions) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("stile.db");
        let options = NodeOptions::sqlite(&file, &[SIGNER.to_owned()]);
        let options = options.set("nonce.hold_timeout", "1h");
        Self { node: change(options).start().await, _directory: directory }
    }
}
