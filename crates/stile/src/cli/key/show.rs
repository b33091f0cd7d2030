//! Keys, for people and for programs.

use serde_json::{Value, json};
use stile_domain::{Operation, SignerScope, Timestamp};
use stile_store::Key;

use crate::cli::table::{self, cell, text};

/// A key as `GET /api/v1/keys` has it.
pub(super) fn json(key: &Key) -> Value {
    let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
    let operations: Vec<&str> = key.scope.operations().map(Operation::name).collect();
    let signers = match key.scope.signers() {
        SignerScope::All => json!("all"),
        SignerScope::Only(signers) => signers.iter().map(|signer| signer.to_string()).collect(),
    };
    json!({
        "keyId": key.id.to_string(),
        "name": key.name.as_str(),
        "hint": key.hint,
        "operations": operations,
        "signers": signers,
        "createdAt": key.created_at.to_string(),
        "expiresAt": time(key.expires_at),
        "revokedAt": time(key.revoked_at),
    })
}

pub(super) fn list_json(keys: &[Key]) -> Value {
    json!({ "items": keys.iter().map(json).collect::<Vec<_>>(), "next": null })
}

fn words(list: &Value) -> String {
    match list.as_array() {
        Some(items) => items.iter().map(text).collect::<Vec<_>>().join(","),
        None => text(list),
    }
}

fn token(key: &Value) -> String {
    format!("stile_{}…", text(&key["hint"]))
}

pub(super) fn listed(keys: &[Key]) -> String {
    let header = ["NAME", "ID", "TOKEN", "OPERATIONS", "SIGNERS", "CREATED", "EXPIRES", "REVOKED"];
    let rows = keys.iter().map(json).map(|key| {
        vec![
            text(&key["name"]),
            text(&key["keyId"]),
            token(&key),
            words(&key["operations"]),
            words(&key["signers"]),
            text(&key["createdAt"]),
            cell(&key["expiresAt"]),
            cell(&key["revokedAt"]),
        ]
    });
    table::list(&header, &[], rows.collect())
}

pub(super) fn details(key: &Key) -> String {
    let key = json(key);
    let expires =
        if key["expiresAt"].is_null() { "never".to_owned() } else { text(&key["expiresAt"]) };
    table::details(vec![
        ("key", text(&key["name"])),
        ("id", text(&key["keyId"])),
        ("operations", words(&key["operations"])),
        ("signers", words(&key["signers"])),
        ("expires", expires),
    ])
}
