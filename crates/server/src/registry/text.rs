//! Names in paths and queries.

use std::fmt::Display;
use std::str::FromStr;

use stile_registry::{NodeId, Requirement};

use crate::problem::Problem;

/// So many nodes can be asked for by name at once.
const MOST_IDS: usize = 500;

/// A name, or what is wrong with it.
pub(super) fn name<T: FromStr<Err: Display>>(field: &str, text: &str) -> Result<T, Problem> {
    text.parse().map_err(|error: T::Err| Problem::field(field, error.to_string()))
}

/// `a,b,c`.
pub(super) fn ids(text: &str) -> Result<Vec<NodeId>, Problem> {
    let ids: Vec<NodeId> =
        text.split(',').map(|part| name("ids", part)).collect::<Result<_, _>>()?;
    if ids.len() > MOST_IDS {
        return Err(Problem::field("ids", format!("must not name more than {MOST_IDS} nodes")));
    }
    Ok(ids)
}

/// `asr,nmt:zh`; an empty text asks for nothing.
pub(super) fn services(text: &str) -> Result<Vec<Requirement>, Problem> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    text.split(',').map(|part| name("services", part)).collect()
}
