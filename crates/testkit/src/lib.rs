//! The real things that tests run against: PostgreSQL, Redis, anvil, and processes of our own.
//!
//! Development only; no shipped crate depends on it.
//!
//! ```text
//!  test process                          outlives it by moments
//!  ────────────                          ──────────────────────
//!  Postgres ─┐
//!  Anvil    ─┼─→ Process ──── pipe ────→ watcher (sh)
//!  Redis    ─┘      │                       │ the pipe closes, however the test died:
//!                   └──→ gate (sh) ═ exec ═→ program   ←── stop signal, then rm -rf
//! ```
//!
//! | file | what it is for |
//! |---|---|
//! | [`wait`] | waiting for a condition, with a deadline and a name |
//! | [`ports`] | a port that nothing listens on and the system does not hand out |
//! | [`programs`] | where the programs are that tests run |
//! | [`process`] | a running program: its output, signals and exit |
//! | [`launch`] | how a program is started |
//! | [`postgres`] | a private PostgreSQL server, and one that follows it |
//! | [`pgbouncer`] | a private PgBouncer before it |
//! | [`anvil`] | a private development chain |
//! | [`nodes`] | development chains of several makes, behind one face |
//! | [`certificates`] | an authority of a test's own, and what it certifies |
//! | [`redis`] | a private Redis server, one that follows it, one with TLS, and a cluster of them |
//! | [`proxy`] | a TCP proxy that cuts, freezes and loses answers |
//! | [`slow_proxy`] | a TCP proxy that takes its time |
//! | [`tls_proxy`] | a TCP proxy that speaks TLS before a server that does not |
//! | [`rpc_proxy`] | a proxy before a chain node that keeps a wire log, delays, holds and refuses |
//!
//! Three rules hold for all of it. Nothing started here outlives the test process, even one killed
//! by `SIGKILL`. Nothing waits by sleeping for a fixed time: every wait names a condition, and
//! gives up after [`DEADLINE`] with a message that says what was missing. And nothing returns an
//! error: a test that lacks its server cannot go on, so everything here panics, with the output of
//! the program that failed.
//!
//! Deliberately absent: mocks, and any knowledge of what `stile` is. Its binary is given by path.

#![warn(missing_docs)]
#![allow(
    clippy::unwrap_used,
    reason = "a launcher that fails ends the test; there is no caller that could go on"
)]

pub mod anvil;
pub mod certificates;
pub mod launch;
pub mod nodes;
pub mod pgbouncer;
pub mod ports;
pub mod postgres;
pub mod process;
pub mod programs;
pub mod proxy;
pub mod redis;
pub mod rpc_proxy;
pub mod slow_proxy;
pub mod tls_proxy;
pub mod wait;

mod account;
mod scratch;
mod signal;
mod watcher;

pub use anvil::{Anvil, AnvilOptions, Mined};
pub use certificates::{Authority, Certified};
pub use launch::Launch;
pub use nodes::{DevNode, NodeKind};
pub use pgbouncer::PgBouncer;
pub use ports::free_port;
pub use postgres::Postgres;
pub use process::Process;
pub use proxy::TcpProxy;
pub use redis::{Redis, RedisCluster, TlsRedis};
pub use rpc_proxy::{Reaction, RpcProxy, Seen, SentRaw};
pub use signal::Signal;
pub use slow_proxy::SlowProxy;
pub use tls_proxy::TlsProxy;
pub use wait::{DEADLINE, eventually, eventually_within};
