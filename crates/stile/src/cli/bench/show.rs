//! What people and programs see of a bench.

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::Failure;

/// A bar for so many steps.
pub(super) fn progress(steps: usize) -> Result<ProgressBar, Failure> {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({elapsed})")?;
    Ok(ProgressBar::new(steps as u64).with_style(style))
}

/// Prints a report: as JSON for programs, else as tables for people.
pub(super) fn print<R: Serialize>(
    report: &R,
    json: bool,
    tables: fn(&R) -> String,
) -> Result<(), Failure> {
    if json {
        println!("{}", serde_json::to_string_pretty(report)?);
    } else {
        println!("{}", tables(report));
    }
    Ok(())
}
