//! The part of the trait that is about API keys.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use stile_domain::{KeyId, Scope, TokenHash};

use super::{SqliteStore, rows, tx_rows};
use crate::key_store::{operations_text, scope, signers_bytes};
use crate::{ActiveKey, Key, KeyRef, KeyStore, NewKey, StoreError};

const COLUMNS: &str = "key_id, name, hint, operations, signers, created_at, expires_at, revoked_at";

#[async_trait]
impl KeyStore for SqliteStore {
    async fn create_key(&self, key: &NewKey) -> Result<Option<Key>, StoreError> {
        let key = key.clone();
        self.write(move |c| create(c, &key)).await
    }

    async fn keys(&self, with_revoked: bool) -> Result<Vec<Key>, StoreError> {
        self.read(move |c| {
            let sql = format!(
                "SELECT {COLUMNS} FROM api_key WHERE ?1 OR revoked_at IS NULL
                 ORDER BY created_at, key_id"
            );
            let mut statement = c.prepare_cached(&sql)?;
            let found = statement.query_map([with_revoked], read)?;
            Ok(found.collect::<Result<_, _>>()?)
        })
        .await
    }

    async fn revoke_key(&self, key: &KeyRef) -> Result<Option<Key>, StoreError> {
        let key = key.clone();
        self.write(move |c| revoke(c, &key)).await
    }

    async fn active_keys(&self) -> Result<Vec<ActiveKey>, StoreError> {
        self.read(|c| {
            let now = rows::now(c)?;
            let mut statement = c.prepare_cached(
                "SELECT key_id, hash, operations, signers, expires_at FROM api_key
                 WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?1)",
            )?;
            let found = statement.query_map([now], |row| read_active(row, now))?;
            Ok(found.collect::<Result<_, _>>()?)
        })
        .await
    }
}

fn create(connection: &Connection, key: &NewKey) -> Result<Option<Key>, StoreError> {
    let now = rows::now(connection)?;
    let expires_at = key.lifetime.map(|lifetime| now.saturating_add(rows::micros(lifetime)));
    let sql = format!(
        "INSERT INTO api_key (key_id, name, hash, hint, operations, signers, created_at, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
         ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING
         RETURNING {COLUMNS}"
    );
    let made = connection.prepare_cached(&sql)?.query_row(
        params![
            key.id.0,
            key.name.as_str(),
            key.hash.0,
            key.hint,
            operations_text(&key.scope),
            signers_bytes(&key.scope),
            now,
            expires_at,
        ],
        read,
    );
    Ok(made.optional()?)
}

fn revoke(connection: &Connection, key: &KeyRef) -> Result<Option<Key>, StoreError> {
    let (id, name) = match key {
        KeyRef::Id(id) => (Some(id.0), None),
        KeyRef::Name(name) => (None, Some(name.as_str())),
    };
    let sql = format!(
        "UPDATE api_key SET revoked_at = coalesce(revoked_at, ?3)
         WHERE key_id = (
             SELECT key_id FROM api_key WHERE key_id = ?1 OR name = ?2
             ORDER BY revoked_at IS NOT NULL, created_at DESC, key_id DESC LIMIT 1
         )
         RETURNING {COLUMNS}"
    );
    let now = rows::now(connection)?;
    let revoked = connection.prepare_cached(&sql)?.query_row(params![id, name, now], read);
    Ok(revoked.optional()?)
}

fn read_scope(row: &Row<'_>) -> rusqlite::Result<Scope> {
    let operations: String = row.get("operations")?;
    let signers: Option<Vec<u8>> = row.get("signers")?;
    scope(&operations, signers.as_deref())
        .ok_or_else(|| rows::broken(row, "operations", Type::Text))
}

fn read(row: &Row<'_>) -> rusqlite::Result<Key> {
    let name: String = row.get("name")?;
    Ok(Key {
        id: KeyId(row.get("key_id")?),
        name: name.parse().map_err(|_| rows::broken(row, "name", Type::Text))?,
        hint: row.get("hint")?,
        scope: read_scope(row)?,
        created_at: rows::time(row, "created_at")?,
        expires_at: tx_rows::optional_time(row, "expires_at")?,
        revoked_at: tx_rows::optional_time(row, "revoked_at")?,
    })
}

fn read_active(row: &Row<'_>, now: i64) -> rusqlite::Result<ActiveKey> {
    let expires_at: Option<i64> = row.get("expires_at")?;
    let left = |at: i64| Duration::from_micros(u64::try_from(at - now).unwrap_or(0));
    Ok(ActiveKey {
        id: KeyId(row.get("key_id")?),
        hash: TokenHash(row.get("hash")?),
        scope: read_scope(row)?,
        remaining: expires_at.map(left),
    })
}
