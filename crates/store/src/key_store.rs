//! The part of the trait that is about API keys.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use stile_domain::{
    Address, KeyId, KeyName, Networks, Operation, Scope, SignerScope, Timestamp, TokenHash,
};

use crate::StoreError;

/// A key about to be made.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// Its name for programs.
    pub id: KeyId,
    /// Its name for people.
    pub name: KeyName,
    /// What is kept of its token.
    pub hash: TokenHash,
    /// The token's first characters.
    pub hint: String,
    /// What it may do.
    pub scope: Scope,
    /// Where it may be used from; `None` for anywhere.
    pub networks: Option<Networks>,
    /// How long it is good for, from now; `None` for ever.
    pub lifetime: Option<Duration>,
}

/// A key, for people. Nothing in it lets anybody in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its name for programs.
    pub id: KeyId,
    /// Its name for people.
    pub name: KeyName,
    /// Its token's first characters.
    pub hint: String,
    /// What it may do.
    pub scope: Scope,
    /// Where it may be used from; `None` for anywhere.
    pub networks: Option<Networks>,
    /// When it was made. All times are the database's.
    pub created_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// When it was last used, give or take a minute.
    pub last_used_at: Option<Timestamp>,
    /// The key that it was rotated for.
    pub replaced_by: Option<KeyId>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// A key that lets its owner in, as whoever checks tokens needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveKey {
    /// Which one.
    pub id: KeyId,
    /// The hash of its token.
    pub hash: TokenHash,
    /// What it may do.
    pub scope: Scope,
    /// Where it may be used from; `None` for anywhere.
    pub networks: Option<Networks>,
    /// How long it is still good for, by the database's clock; `None` for ever.
    pub remaining: Option<Duration>,
}

/// A key that is to take the place of another one, with its name and all that it may do.
#[derive(Debug, Clone)]
pub struct Rotation {
    /// Its name for programs.
    pub id: KeyId,
    /// What is kept of its token.
    pub hash: TokenHash,
    /// The token's first characters.
    pub hint: String,
    /// How long it is good for, from now; `None` for as long as the old one was to be.
    pub lifetime: Option<Duration>,
    /// How long the old one stays good, at most.
    pub overlap: Duration,
}

/// What became of a rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rotated {
    /// There is a new key, and the old one ends.
    Done {
        /// The one to use from now on.
        new: Box<Key>,
        /// The one that ends.
        old: Box<Key>,
    },
    /// The key is revoked: nothing takes its place.
    Revoked(Box<Key>),
    /// The key was rotated before; its successor can be.
    Replaced(Box<Key>),
    /// There is no such key.
    Unknown,
}

/// Which key is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyRef {
    /// By its id.
    Id(KeyId),
    /// By its name: the one that is neither revoked nor rotated, else one that is not revoked, else the
    /// one that was made last.
    Name(KeyName),
}

/// Who may call. See [`crate::Store`] for what holds of all calls.
#[async_trait]
pub trait KeyStore: Send + Sync + std::fmt::Debug {
    /// Makes a key. `None`: a key that is not revoked has the name.
    async fn create_key(&self, key: &NewKey) -> Result<Option<Key>, StoreError>;

    /// The keys in the order they were made; those that were revoked only on request.
    async fn keys(&self, with_revoked: bool) -> Result<Vec<Key>, StoreError>;

    /// Revokes a key, for good. Answers with the key; one that was revoked before keeps its time.
    /// `None`: there is no such key.
    async fn revoke_key(&self, key: &KeyRef) -> Result<Option<Key>, StoreError>;

    /// Makes a key that takes the place of another one, which ends.
    async fn rotate_key(&self, key: &KeyRef, rotation: &Rotation) -> Result<Rotated, StoreError>;

    /// Notes that keys were used, so long ago. What cannot be noted at once is left out.
    async fn note_key_use(&self, used: &[(KeyId, Duration)]) -> Result<(), StoreError>;

    /// Whether there ever was a key, whatever became of it.
    async fn key_existed(&self) -> Result<bool, StoreError>;

    /// The keys that are neither revoked nor expired.
    async fn active_keys(&self) -> Result<Vec<ActiveKey>, StoreError>;
}

/// Why a key was not rotated: `found` are all those that may be meant.
pub(crate) fn not_rotated(key: &KeyRef, found: Vec<Key>) -> Rotated {
    let meant = |found: &Key| match key {
        KeyRef::Id(id) => found.id == *id,
        KeyRef::Name(name) => found.name == *name,
    };
    match found.into_iter().rev().find(meant) {
        None => Rotated::Unknown,
        Some(key) if key.revoked_at.is_some() => Rotated::Revoked(Box::new(key)),
        Some(key) => Rotated::Replaced(Box::new(key)),
    }
}

/// The column `operations`.
pub(crate) fn operations_text(scope: &Scope) -> String {
    scope.operations().map(Operation::name).collect::<Vec<_>>().join(",")
}

/// The column `signers`.
pub(crate) fn signers_bytes(scope: &Scope) -> Option<Vec<u8>> {
    match scope.signers() {
        SignerScope::All => None,
        SignerScope::Only(signers) => Some(signers.iter().flatten().copied().collect()),
    }
}

/// A scope from its columns; `None` if they hold what their constraints forbid.
pub(crate) fn scope(operations: &str, signers: Option<&[u8]>) -> Option<Scope> {
    let operations: Option<Vec<Operation>> =
        operations.split(',').map(|name| name.parse().ok()).collect();
    let signers = match signers {
        None => SignerScope::All,
        Some(bytes) => {
            let (whole, rest) = bytes.as_chunks::<20>();
            if !rest.is_empty() {
                return None;
            }
            SignerScope::Only(whole.iter().map(Address::from).collect::<BTreeSet<_>>())
        }
    };
    Scope::new(operations?, signers).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_survives_its_columns() {
        let some: BTreeSet<_> = [Address::repeat_byte(1), Address::repeat_byte(0xff)].into();
        for (operations, signers) in [
            (vec![Operation::Read], SignerScope::Only(some.clone())),
            (vec![Operation::Send, Operation::Operate, Operation::Read], SignerScope::Only(some)),
            (vec![Operation::Admin], SignerScope::All),
        ] {
            let given = Scope::new(operations, signers).unwrap();
            let read = scope(&operations_text(&given), signers_bytes(&given).as_deref());
            assert_eq!(read, Some(given));
        }
    }

    #[test]
    fn broken_columns_are_no_scope() {
        let half = [1; 30];
        for (operations, signers) in [
            ("", None),
            ("read,", None),
            ("read, send", None),
            ("write", None),
            ("read", Some(&half[..])),
            ("read", Some(&[][..])),
            ("admin", Some(&half[..20])),
        ] {
            assert_eq!(scope(operations, signers), None, "{operations} {signers:?}");
        }
    }
}
