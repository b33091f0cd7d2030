//! What the entries of lanes' histories say, the same on both stores.

use serde_json::{Value, json};
use stile_domain::Nonce;

use crate::{Advance, Realign};

/// What the history says of a pause: what is given, and why.
pub(crate) fn paused_data(reason: &str, data: &Value) -> Value {
    let mut said = if data.is_object() { data.clone() } else { json!({}) };
    said["reason"] = reason.into();
    said
}

/// What the history says of a first cursor.
pub(crate) fn started_data(cursor: Nonce) -> Value {
    json!({ "cursor": cursor })
}

impl Realign {
    /// The way of the cursor, if it is one forward.
    pub(crate) fn forward(self) -> Option<Advance> {
        let count = self.to.checked_sub(self.from).filter(|count| *count > 0)?;
        Some(Advance { first: self.from, count })
    }
}
