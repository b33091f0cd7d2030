//! The part of the trait that is about API keys.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use stile_domain::{KeyId, Networks, Scope, TokenHash};

use super::{SqliteStore, rows, tx_rows};
use crate::key_store::{not_rotated, operations_text, scope, signers_bytes};
use crate::{ActiveKey, Key, KeyRef, KeyStore, NewKey, Rotated, Rotation, StoreError};

const COLUMNS: &str =
    "key_id, name, hint, operations, signers, networks, created_at, expires_at, last_used_at,
                       replaced_by, revoked_at";

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

    async fn rotate_key(&self, key: &KeyRef, rotation: &Rotation) -> Result<Rotated, StoreError> {
        let (wanted, rotation) = (key.clone(), rotation.clone());
        match self.write(move |c| rotate(c, &wanted, &rotation)).await? {
            Some((new, old)) => Ok(Rotated::Done { new: Box::new(new), old: Box::new(old) }),
            None => Ok(not_rotated(key, self.keys(true).await?)),
        }
    }

    async fn note_key_use(&self, used: &[(KeyId, Duration)]) -> Result<(), StoreError> {
        let used = used.to_vec();
        self.write(move |c| note_use(c, &used)).await
    }

    async fn key_existed(&self) -> Result<bool, StoreError> {
        self.read(|c| {
            let sql = "SELECT EXISTS (SELECT 1 FROM api_closed)";
            Ok(c.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
        })
        .await
    }

    async fn active_keys(&self) -> Result<Vec<ActiveKey>, StoreError> {
        self.read(|c| {
            let now = rows::now(c)?;
            let mut statement = c.prepare_cached(
                "SELECT key_id, hash, operations, signers, networks, expires_at FROM api_key
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
        "INSERT INTO api_key (key_id, name, hash, hint, operations, signers, networks, created_at, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT (name) WHERE revoked_at IS NULL AND replaced_by IS NULL DO NOTHING
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
            key.networks.as_ref().map(Networks::to_string),
            now,
            expires_at,
        ],
        read,
    );
    Ok(made.optional()?)
}

fn revoke(connection: &Connection, key: &KeyRef) -> Result<Option<Key>, StoreError> {
    let (id, name) = named(key);
    let sql = format!(
        "UPDATE api_key SET revoked_at = coalesce(revoked_at, ?3)
         WHERE key_id = (
             SELECT key_id FROM api_key WHERE key_id = ?1 OR name = ?2
             ORDER BY revoked_at IS NOT NULL, replaced_by IS NOT NULL, created_at DESC, key_id DESC LIMIT 1
         )
         RETURNING {COLUMNS}"
    );
    let now = rows::now(connection)?;
    let revoked = connection.prepare_cached(&sql)?.query_row(params![id, name, now], read);
    Ok(revoked.optional()?)
}

fn named(key: &KeyRef) -> (Option<uuid::Uuid>, Option<&str>) {
    match key {
        KeyRef::Id(id) => (Some(id.0), None),
        KeyRef::Name(name) => (None, Some(name.as_str())),
    }
}

/// The new key and the old one, if there is one that is neither revoked nor rotated.
fn rotate(
    connection: &Connection,
    key: &KeyRef,
    rotation: &Rotation,
) -> Result<Option<(Key, Key)>, StoreError> {
    let (now, (id, name)) = (rows::now(connection)?, named(key));
    let found = connection
        .prepare_cached(
            "SELECT key_id, created_at, expires_at FROM api_key
             WHERE (key_id = ?1 OR name = ?2) AND revoked_at IS NULL AND replaced_by IS NULL",
        )?
        .query_row(params![id, name], |row| {
            Ok((row.get::<_, uuid::Uuid>(0)?, row.get::<_, i64>(1)?, row.get::<_, Option<i64>>(2)?))
        })
        .optional()?;
    let Some((old, created_at, expires_at)) = found else { return Ok(None) };
    // The clock is coarse: a key may be rotated in the moment that it was made.
    let ends = now.saturating_add(rows::micros(rotation.overlap)).max(created_at + 1);
    let lifetime = rotation.lifetime.map(rows::micros);
    let lifetime = lifetime.or(expires_at.map(|expires_at| expires_at - created_at));
    let sql = format!(
        "UPDATE api_key SET replaced_by = ?2, expires_at = min(coalesce(expires_at, ?3), ?3)
         WHERE key_id = ?1 RETURNING {COLUMNS}"
    );
    let old =
        connection.prepare_cached(&sql)?.query_row(params![old, rotation.id.0, ends], read)?;
    let sql = format!(
        "INSERT INTO api_key (key_id, name, hash, hint, operations, signers, networks, created_at, expires_at)
         SELECT ?2, name, ?3, ?4, operations, signers, networks, ?5, ?6 FROM api_key WHERE key_id = ?1
         RETURNING {COLUMNS}"
    );
    let new = connection.prepare_cached(&sql)?.query_row(
        params![
            old.id.0,
            rotation.id.0,
            rotation.hash.0,
            rotation.hint,
            now,
            lifetime.map(|lifetime| now.saturating_add(lifetime)),
        ],
        read,
    )?;
    Ok(Some((new, old)))
}

/// The use of a key is written once a minute, whoever notes it, give or take what a clock does.
const WRITTEN_EVERY: Duration = Duration::from_secs(55);

fn note_use(connection: &Connection, used: &[(KeyId, Duration)]) -> Result<(), StoreError> {
    let now = rows::now(connection)?;
    let mut statement = connection.prepare_cached(
        "UPDATE api_key SET last_used_at = ?2
         WHERE key_id = ?1 AND (last_used_at IS NULL OR last_used_at < ?2 - ?3)",
    )?;
    for (key, ago) in used {
        let at = now.saturating_sub(rows::micros(*ago));
        statement.execute(params![key.0, at, rows::micros(WRITTEN_EVERY)])?;
    }
    Ok(())
}

fn read_networks(row: &Row<'_>) -> rusqlite::Result<Option<Networks>> {
    let text: Option<String> = row.get("networks")?;
    let broken = |_| rows::broken(row, "networks", Type::Text);
    text.map(|text| text.parse().map_err(broken)).transpose()
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
        networks: read_networks(row)?,
        created_at: rows::time(row, "created_at")?,
        expires_at: tx_rows::optional_time(row, "expires_at")?,
        last_used_at: tx_rows::optional_time(row, "last_used_at")?,
        replaced_by: row.get::<_, Option<_>>("replaced_by")?.map(KeyId),
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
        networks: read_networks(row)?,
        remaining: expires_at.map(left),
    })
}
