//! Keys, for people and for programs.

use serde_json::{Value, json};
use stile_domain::{Operation, Scope, SignerScope, Timestamp};
use stile_store::Key;

use crate::cli::Failure;
use crate::cli::table::{self, cell, text};

pub(super) fn operations(scope: &Scope) -> Vec<&'static str> {
    scope.operations().map(Operation::name).collect()
}

pub(super) fn signers(scope: &Scope) -> Value {
    match scope.signers() {
        SignerScope::All => json!("all"),
        SignerScope::Only(signers) => signers.iter().map(|signer| signer.to_string()).collect(),
    }
}

/// A key as `GET /api/v1/keys` has it.
pub(super) fn json(key: &Key) -> Value {
    let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
    let from = key.networks.as_ref().map(|networks| networks.texts().collect::<Vec<_>>());
    json!({
        "keyId": key.id.to_string(),
        "name": key.name.as_str(),
        "hint": key.hint,
        "operations": operations(&key.scope),
        "signers": signers(&key.scope),
        "from": from,
        "createdAt": key.created_at.to_string(),
        "expiresAt": time(key.expires_at),
        "lastUsedAt": time(key.last_used_at),
        "replacedBy": key.replaced_by.map(|id| id.to_string()),
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

pub(super) fn listed(keys: &Value) -> String {
    let header = [
        "NAME",
        "ID",
        "TOKEN",
        "OPERATIONS",
        "SIGNERS",
        "FROM",
        "CREATED",
        "EXPIRES",
        "LAST USED",
        "REVOKED",
    ];
    let items = keys["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rows = items.iter().map(|key| {
        let from = if key["from"].is_null() { "anywhere".to_owned() } else { words(&key["from"]) };
        vec![
            text(&key["name"]),
            text(&key["keyId"]),
            token(key),
            words(&key["operations"]),
            words(&key["signers"]),
            from,
            text(&key["createdAt"]),
            cell(&key["expiresAt"]),
            cell(&key["lastUsedAt"]),
            cell(&key["revokedAt"]),
        ]
    });
    table::list(&header, &[], rows.collect())
}

/// A key that was just made: its token alone on standard output, for scripts, and the rest on standard
/// error.
pub(super) fn made(key: &Value, as_json: bool) -> Result<(), Failure> {
    if key["expiresAt"].is_null() {
        let name = text(&key["name"]);
        eprintln!(
            "This key never ends. To have one that does: `stile key rotate {name} --expires 90d`."
        );
    }
    if as_json {
        return table::print(&table::json(key));
    }
    eprintln!("{}", details(key));
    eprintln!(
        "This is the only time the token is shown. Send it as Authorization: Bearer <token>,"
    );
    eprintln!(
        "or set STILE_API_KEY for `stile tx` and `stile signer`. From now on every call needs a key."
    );
    table::print(&text(&key["token"]))
}

fn details(key: &Value) -> String {
    let expires =
        if key["expiresAt"].is_null() { "never".to_owned() } else { text(&key["expiresAt"]) };
    table::details(vec![
        ("key", text(&key["name"])),
        ("id", text(&key["keyId"])),
        ("operations", words(&key["operations"])),
        ("signers", words(&key["signers"])),
        ("from", words(&key["from"])),
        ("expires", expires),
    ])
}
