//! What the entries of lanes' histories say, the same on both stores.

use serde_json::{Value, json};
use stile_domain::{Nonce, Remembered};

use crate::{Advance, Realign, Realigned};

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

/// In an entry of a lane's history: nothing but the chain's count says that commits may be missing, and
/// others use the key by declaration, or a person has ended a pause while nothing waited.
pub const SETTLES_ITSELF: &str = "settlesItself";

/// What the history says of a lane that was brought into another history of the database, which is in
/// `place` now: what is given, why, and how far it went.
pub(crate) fn realigned_data(
    data: &Value,
    realigned: &Realigned,
    remembered: &Remembered,
    history: (Option<&str>, &str),
    place: &str,
) -> Value {
    let (before, now) = history;
    let mut said = if data.is_object() { data.clone() } else { json!({}) };
    said["from"] = json!(realigned.from);
    said["cursor"] = json!(realigned.to);
    said["restored"] = json!(realigned.restored);
    said["boundAgain"] = json!(realigned.bound_again);
    said["chainNonce"] = json!(remembered.used);
    said["givenOut"] = json!(remembered.given_out);
    said["timelineBefore"] = json!(before);
    said["timeline"] = json!(now);
    if let Some(ahead) = remembered.ahead.as_ref().and_then(|ahead| ahead.still_in(place)) {
        said["reason"] = json!(ahead.reason);
        said[SETTLES_ITSELF] = json!(ahead.settles_itself);
    }
    said
}

impl Realign {
    /// The way of the cursor, if it is one forward.
    pub(crate) fn forward(self) -> Option<Advance> {
        let count = self.to.checked_sub(self.from).filter(|count| *count > 0)?;
        Some(Advance { first: self.from, count })
    }
}
