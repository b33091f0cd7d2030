//! Stile over HTTP.
//!
//! | file | what is in it |
//! |---|---|
//! | [`app`] | the routes, and what every handler is given |
//! | [`guard`] | which API keys let their owners in, kept in memory |
//! | `bearer` | the layer in front of all calls: who is asking, and may they? |
//! | `browsers` | calls that pages of other sites make |
//! | `rates` | how often may be called, and with wrong keys |
//! | `streams` | how many answers without an end a key may have open |
//! | `access` | what a key lets its owner do, and what each call needs |
//! | `keys` | API keys: list, make, revoke |
//! | [`directory`] | which lanes this server serves |
//! | [`peers`] | calls for lanes that another node holds |
//! | `route` | where a signer's lane is |
//! | `nonces` | allocate and mark |
//! | `tx` | managed transactions: take, show, list, withdraw, speed up |
//! | `events` | everything that happens to transactions and lanes, as it happens |
//! | `registry` | the node registry: nodes, pools, jobs, configurations |
//! | `signers` | lanes for people: list, show, pause, and what to do when one does not move |
//! | `chains` | chains for people: how far they are, and what their endpoints can do |
//! | `health` | liveness, readiness, metrics |
//! | `readiness` | whether the database answers, asked once for all |
//! | `docs` | the API, to browse |
//! | `page` | the page at `/` |
//! | `extract` | bodies, path parts and queries, with errors that name the field |
//! | [`problem`] | RFC 9457 problem documents |
//! | [`code`] | every error code there is |
//! | `schema` | what texts and numbers look like, for the OpenAPI document |
//! | `measure` | a count and a duration for every request, and what the guard costs |
//! | [`serve`] | connections: listening, TLS, time limits, and stopping |
//!
//! What is deliberately absent: rules about nonces and transactions. A handler parses, calls the
//! engine, and shows what it got.

#![warn(missing_docs, clippy::print_stdout, clippy::print_stderr)]

mod access;
pub mod app;
mod bearer;
mod browsers;
mod chains;
pub mod code;
pub mod directory;
mod docs;
mod events;
mod extract;
pub mod guard;
mod health;
mod key_use;
mod keys;
mod measure;
mod nonces;
mod page;
pub mod peers;
pub mod problem;
mod rates;
mod readiness;
mod registry;
mod route;
mod schema;
pub mod serve;
mod signers;
mod streams;
mod tx;

pub use app::{App, openapi};
pub use directory::Directory;
pub use guard::Guard;
pub use peers::{
    Authorities, ClusterOptions, ClusterSecret, NodeIdentity, NotAnIdentity, NotCertificates,
    NotHolder, WeakSecret, is_private_way,
};
pub use serve::{Limits, ListenError, Listening, ServeOptions, Server, TlsError, TlsFiles};

/// Whether a text can be one of a server's names, `server.hosts`.
pub fn is_host_name(text: &str) -> bool {
    browsers::is_name(text)
}
