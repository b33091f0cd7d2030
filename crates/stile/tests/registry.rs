//! The node registry: over HTTP and WebSocket, at the terminal, and under Stile's own nodes.
//!
//! | file | what is checked |
//! |---|---|
//! | `nodes` | registering, reading, listing, removing, in one process and on Redis |
//! | `refusals` | what cannot be used is refused, with the field and the code |
//! | `jobs` | slots for jobs, on one server and on two, and while Redis is away |
//! | `configurations` | configurations under versions |
//! | `connect` | nodes that hold a connection |
//! | `keys` | what each call needs |
//! | `secrets` | the password of Redis is nowhere to be seen |
//! | `terminal` | `stile node` |
//! | `membership` | Stile's own nodes, while Redis is there, frozen, wiped, killed and started again |
//! | `hostile` | a Redis that somebody else writes to |
//! | `calls` | calls to chain endpoints, shared out between nodes |
//! | `page` | what docs/registry.md shows |

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[macro_use]
mod common;

#[path = "cluster/holds.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod holds;
#[path = "keys/support.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod key_support;
#[path = "tx/support/mod.rs"]
mod support;

#[path = "registry/calls.rs"]
mod calls;
#[path = "registry/configurations.rs"]
mod configurations;
#[path = "registry/connect.rs"]
mod connect;
#[path = "registry/hostile.rs"]
mod hostile;
#[path = "registry/jobs.rs"]
mod jobs;
#[path = "registry/keys.rs"]
mod keys;
#[path = "registry/membership.rs"]
mod membership;
#[path = "registry/nodes.rs"]
mod nodes;
#[path = "registry/page.rs"]
mod page;
#[path = "registry/refusals.rs"]
mod refusals;
#[path = "registry/secrets.rs"]
mod secrets;
#[path = "registry/terminal.rs"]
mod terminal;

use common::{Answer, NodeOptions, SIGNER, StileProcess};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Redis, Signal};

/// A node on an embedded store, with what must outlive it.
pub(crate) struct Solo {
    pub(crate) node: StileProcess,
    _directory: TempDir,
}

impl Solo {
    /// With a registry in the process.
    pub(crate) async fn start() -> Self {
        Self::start_with(|options| options).await
    }

    /// With a registry on Redis.
    pub(crate) async fn on(redis: &Redis) -> Self {
        Self::start_with(|options| options.set("redis.url", redis.url())).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(NodeOptions) -> NodeOptions) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("stile.db");
        let options = NodeOptions::sqlite(&file, &[SIGNER.to_owned()])
            // A machine may be busy.
            .set("registry.redis_timeout", "2s")
            .set("registry.version_check_timeout", "1s");
        Self { node: change(options).start().await, _directory: directory }
    }
}

impl StileProcess {
    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        let sent = self.request("PUT", path).json(&body).send().await;
        Answer::of(sent.unwrap()).await.unwrap()
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        Answer::of(self.request("DELETE", path).send().await.unwrap()).await.unwrap()
    }
}

/// A speech worker that takes so many jobs.
pub(crate) fn speech(max_concurrency: u32) -> Value {
    json!({
        "pools": ["speech"],
        "services": { "asr": ["zh", "en"], "nmt": ["zh"], "vad": [] },
        "resources": { "maxConcurrency": max_concurrency, "cpuUsage": 0.25, "memoryUsage": 0.5 },
        "installedServices": ["whisper-large"],
        "features": { "streaming": true },
    })
}

/// The names of the nodes of a list.
pub(crate) fn ids(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap_or_else(|| panic!("no list: {list}"));
    items.iter().map(|node| node["id"].as_str().unwrap().to_owned()).collect()
}

/// Ends a Redis without a word, and waits until it is gone.
pub(crate) async fn kill(redis: &Redis) {
    redis.process().signal(Signal::Kill);
    redis.process().wait_exit(testkit::DEADLINE).await;
}
