//! The node registry over HTTP.
//!
//! | file | what is in it |
//! |---|---|
//! | `nodes` | nodes: read, list, register, sign of life, remove |
//! | `pools` | who is in a pool, and who of them could do a job |
//! | `jobs` | a slot for a job, and its end |
//! | `config` | configurations under versions |
//! | `connect` | the same for nodes that hold a connection (WebSocket) |
//! | `message` | what is said over it |
//! | `body` | what nodes say of themselves, as it is read |
//! | `view` | what is answered, for the OpenAPI document |
//! | `own` | what is Stile's own, and nobody else's to write |
//! | `text` | names in paths and queries |
//! | `problem` | the registry's errors as problem documents |
//!
//! The registry's own types are what is written; `view` says once more what they look like, and the
//! test that holds every answer against the document holds the two together.

pub(crate) mod body;
pub(crate) mod config;
pub(crate) mod connect;
pub(crate) mod jobs;
mod message;
pub(crate) mod nodes;
mod own;
pub(crate) mod pools;
mod problem;
mod text;
pub(crate) mod view;
