//! The keys' part of the spy: passed on as it is.

use async_trait::async_trait;
use stile_store::{ActiveKey, Key, KeyRef, KeyStore, NewKey, StoreError};

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

    async fn active_keys(&self) -> Result<Vec<ActiveKey>, StoreError> {
        self.inner.active_keys().await
    }
}
