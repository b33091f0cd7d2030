//! The part of the trait that is about API keys.

use std::time::Duration;

use async_trait::async_trait;
use stile_domain::{KeyId, Networks, TokenHash};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{PostgresStore, rows};
use crate::key_store::{not_rotated, operations_text, scope, signers_bytes};
use crate::{ActiveKey, Key, KeyRef, KeyStore, NewKey, Rotated, Rotation, StoreError};

#[async_trait]
impl KeyStore for PostgresStore {
    async fn create_key(&self, key: &NewKey) -> Result<Option<Key>, StoreError> {
        let made = self
            .sessions
            .write(
                include_str!("sql/create_key.sql"),
                &[
                    &key.id.0,
                    &key.name.as_str(),
                    &key.hash.0.as_slice(),
                    &key.hint,
                    &operations_text(&key.scope),
                    &signers_bytes(&key.scope),
                    &key.networks.as_ref().map(Networks::to_string),
                    &key.lifetime.map(rows::seconds),
                ],
            )
            .await?;
        made.first().map(read).transpose()
    }

    async fn keys(&self, with_revoked: bool) -> Result<Vec<Key>, StoreError> {
        let sql = include_str!("sql/keys.sql");
        let found = self.sessions.read(sql, &[(&with_revoked, Type::BOOL)]).await?;
        found.iter().map(read).collect()
    }

    async fn revoke_key(&self, key: &KeyRef) -> Result<Option<Key>, StoreError> {
        let (id, name) = named(key);
        let sql = include_str!("sql/revoke_key.sql");
        let revoked = self.sessions.write(sql, &[&id, &name]).await?;
        revoked.first().map(read).transpose()
    }

    async fn rotate_key(&self, key: &KeyRef, rotation: &Rotation) -> Result<Rotated, StoreError> {
        let (id, name) = named(key);
        let rotated = self
            .sessions
            .write(
                include_str!("sql/rotate_key.sql"),
                &[
                    &id,
                    &name,
                    &rotation.id.0,
                    &rotation.hash.0.as_slice(),
                    &rotation.hint,
                    &rows::seconds(rotation.overlap),
                    &rotation.lifetime.map(rows::seconds),
                ],
            )
            .await?;
        match rotated.as_slice() {
            [new, old] => {
                Ok(Rotated::Done { new: Box::new(read(new)?), old: Box::new(read(old)?) })
            }
            _ => Ok(not_rotated(key, self.keys(true).await?)),
        }
    }

    async fn note_key_use(&self, used: &[(KeyId, Duration)]) -> Result<(), StoreError> {
        let (keys, ago): (Vec<_>, Vec<_>) =
            used.iter().map(|(key, ago)| (key.0, rows::seconds(*ago))).unzip();
        let sql = include_str!("sql/note_key_use.sql");
        self.sessions.write(sql, &[&keys, &ago]).await.map(drop)
    }

    async fn key_existed(&self) -> Result<bool, StoreError> {
        let found = self.sessions.read(include_str!("sql/key_existed.sql"), &[]).await?;
        found.first().map_or(Ok(false), |row| Ok(row.try_get("existed")?))
    }

    async fn active_keys(&self) -> Result<Vec<ActiveKey>, StoreError> {
        let found = self.sessions.read(include_str!("sql/active_keys.sql"), &[]).await?;
        found.iter().map(read_active).collect()
    }
}

fn named(key: &KeyRef) -> (Option<uuid::Uuid>, Option<&str>) {
    match key {
        KeyRef::Id(id) => (Some(id.0), None),
        KeyRef::Name(name) => (None, Some(name.as_str())),
    }
}

fn read_networks(row: &Row) -> Result<Option<Networks>, StoreError> {
    let text: Option<&str> = row.try_get("networks")?;
    text.map(|text| text.parse().map_err(|_| rows::broken("networks"))).transpose()
}

fn read_scope(row: &Row) -> Result<stile_domain::Scope, StoreError> {
    let (operations, signers) = (row.try_get("operations")?, row.try_get("signers")?);
    scope(operations, signers).ok_or_else(|| rows::broken("operations or signers"))
}

fn read(row: &Row) -> Result<Key, StoreError> {
    let name: &str = row.try_get("name")?;
    Ok(Key {
        id: KeyId(row.try_get("key_id")?),
        name: name.parse().map_err(|_| rows::broken("name"))?,
        hint: row.try_get("hint")?,
        scope: read_scope(row)?,
        networks: read_networks(row)?,
        created_at: row.try_get("created_at")?,
        expires_at: row.try_get("expires_at")?,
        last_used_at: row.try_get("last_used_at")?,
        replaced_by: row.try_get::<_, Option<_>>("replaced_by")?.map(KeyId),
        revoked_at: row.try_get("revoked_at")?,
    })
}

fn read_active(row: &Row) -> Result<ActiveKey, StoreError> {
    let hash: &[u8] = row.try_get("hash")?;
    let remaining: Option<f64> = row.try_get("remaining_secs")?;
    Ok(ActiveKey {
        id: KeyId(row.try_get("key_id")?),
        hash: TokenHash(hash.try_into().map_err(|_| rows::broken("hash"))?),
        scope: read_scope(row)?,
        networks: read_networks(row)?,
        remaining: remaining.map(|secs| Duration::try_from_secs_f64(secs).unwrap_or_default()),
    })
}
