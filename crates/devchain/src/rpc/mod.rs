//! JSON-RPC over HTTP.
//!
//! ```text
//!  POST / → server → envelope → faults: a lie? → dispatch → methods → view of the chain → json
//!                                    └── late? ←──────────────────────────────────────────┘
//! ```
//!
//! | file | what it is for |
//! |---|---|
//! | `server` | HTTP |
//! | `envelope` | requests and answers, alone and in batches |
//! | `error` | errors and their codes |
//! | `params` | reading parameters |
//! | `view` | the chain as a caller sees it: how far, and what `latest` means |
//! | `dispatch` | which function answers which method |
//! | `methods` | those functions |
//! | `json` | how blocks, transactions, receipts and logs are written |

mod dispatch;
mod envelope;
mod error;
mod json;
mod methods;
mod params;
mod server;
mod view;

pub(crate) use server::serve;
