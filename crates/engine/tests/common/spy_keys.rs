//! The keys' part of the spy: passed on as it is.

use std::time::Duration;

use async_trait::async_trait;
use stile_domain::KeyId;
use stile_store::{ActiveKey, Key, KeyRef, KeyStore, NewKey, Rotated, Rotation, StoreError};

use super::spy::Spy;

#[async_trait]
impl KeyStore for Spy {
    async fn create_key(&self, key: &NewKey) -> Result<Option<Key>, StoreError> {
        self.inner.create_key(key).await
    }

    async fn keys(&self, with_revoked: bool) -> Result<Vec<Key>, StoreError> {
        self.inner.keys(with_revoked).await
    }

    async fn revoke_key(&self, key: &KeyRef) -> Result<Option<Key>, StoreError> {
        self.inner.revoke_key(key).await
    }

    async fn rotate_key(&self, key: &KeyRef, rotation: &Rotation) -> Result<Rotated, StoreError> {
        self.inner.rotate_key(key, rotation).await
    }

    async fn note_key_use(&self, used: &[(KeyId, Duration)]) -> Result<(), StoreError> {
        self.inner.note_key_use(used).await
    }

    async fn key_existed(&self) -> Result<bool, StoreError> {
        self.inner.key_existed().await
    }

    async fn active_keys(&self) -> Result<Vec<ActiveKey>, StoreError> {
        self.inner.active_keys().await
    }
}
