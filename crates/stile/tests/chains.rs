//! One suite for all chains: the same story on node programs of several makes, and on one from
//! which one capability after the other is taken away by a proxy.
//!
//! What comes of it is the table of docs/chains.md. It is written to target/chains/; with
//! `STILE_UPDATE_DOCS=1` the page is written too. `STILE_CHAINS=ganache,geth` runs only the rows
//! whose names contain one of these words, and compares nothing.
//!
//! | file | what is in it |
//! |---|---|
//! | `makes` | the node programs, each with the whole story |
//! | `lacking` | what an endpoint may lack, each with a shorter story |
//! | `stage` | a node program, a proxy, Stile, and what is sent through them |
//! | `story` | the steps, each with what has to come of it |
//! | `page` | the tables, and the page they are in |

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[macro_use]
mod common;

#[path = "tx/support/mod.rs"]
mod support;

#[path = "chains/page.rs"]
mod page;
#[path = "chains/stage.rs"]
mod stage;
#[path = "chains/story.rs"]
mod story;

#[path = "chains/lacking.rs"]
mod lacking;
#[path = "chains/makes.rs"]
mod makes;

use std::panic::AssertUnwindSafe;

use futures::future::{FutureExt, LocalBoxFuture, join_all};
use tokio::sync::Semaphore;

use crate::page::Row;

/// Rows that are told beside each other. They wait for blocks most of the time.
const BESIDE: usize = 6;

/// A row that is still to be told.
struct Untold {
    name: &'static str,
    tell: LocalBoxFuture<'static, Row>,
}

/// Whether a row is wanted, and whether all are.
fn wanted(name: &str) -> bool {
    let Ok(words) = std::env::var("STILE_CHAINS") else { return true };
    words.split(',').any(|word| name.to_lowercase().contains(&word.to_lowercase()))
}

/// Tells all rows, a few beside each other, and holds the page to what came of them.
///
/// Fails with the names of those that did not end as they have to; what went wrong with each is in
/// the output.
async fn tell_all(table: &'static str, rows: Vec<Untold>) {
    let turns = &Semaphore::new(BESIDE);
    let told = rows.into_iter().filter(|row| wanted(row.name)).map(|row| async move {
        let _turn = turns.acquire().await.unwrap();
        (row.name, AssertUnwindSafe(row.tell).catch_unwind().await)
    });
    let told = join_all(told).await;
    let failed: Vec<&str> =
        told.iter().filter(|(_, row)| row.is_err()).map(|(name, _)| *name).collect();
    let rows: Vec<Row> = told.into_iter().filter_map(|(_, row)| row.ok()).collect();
    let whole = failed.is_empty() && std::env::var_os("STILE_CHAINS").is_none();
    page::keep(table, &rows, whole);
    assert!(failed.is_empty(), "not as it has to be on: {failed:?}");
}
