//! A transaction, as it is seen in a block.

use std::fmt;

use alloy::primitives::{Address, B256, U64};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use stile_domain::{MAX_NONCE, Nonce};

use crate::maybe::Maybe;

/// A transaction seen in a block: as much of it as tells whose it is.
///
/// Some nodes answer with hashes only, and some chains have transactions of their own that nobody
/// signed. Their hash is kept, and they are [`Address::ZERO`]'s with the nonce [`Nonce::MAX`]:
/// nobody has a key for that address, and no account comes to that nonce, so that whoever looks for
/// an account's transactions never takes one of these for them. [`Sighting::sender`] tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sighting {
    /// Its hash.
    pub hash: B256,
    /// Who signed it.
    pub from: Address,
    /// Which nonce it used up.
    pub nonce: Nonce,
}

impl Sighting {
    /// One of which nothing is known but its hash.
    pub fn of_nobody(hash: B256) -> Self {
        Self { hash, from: Address::ZERO, nonce: Nonce::MAX }
    }

    /// Who signed it and with which nonce; `None` where the node does not say.
    pub fn sender(&self) -> Option<(Address, Nonce)> {
        (self.nonce != Nonce::MAX).then_some((self.from, self.nonce))
    }
}

/// One entry of a block's list of transactions, on its way in.
pub(crate) struct Entry(Sighting);

impl From<Entry> for Sighting {
    fn from(entry: Entry) -> Self {
        entry.0
    }
}

/// By hand, so that what is not wanted is skipped while it is read: whoever lets serde choose
/// between a text and an object makes it keep all of the object first, call data included.
impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EntryVisitor)
    }
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = Entry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a transaction or its hash")
    }

    fn visit_str<E: Error>(self, hash: &str) -> Result<Entry, E> {
        hash.parse().map(|hash| Entry(Sighting::of_nobody(hash))).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Entry, A::Error> {
        let Told { hash, from, nonce } = Told::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Entry(match (from.known(), nonce.known().map(|nonce| nonce.to::<u64>())) {
            (Some(from), Some(nonce)) if nonce <= MAX_NONCE => Sighting { hash, from, nonce },
            _ => Sighting::of_nobody(hash),
        }))
    }
}

#[derive(Deserialize)]
struct Told {
    hash: B256,
    #[serde(default)]
    from: Maybe<Address>,
    #[serde(default)]
    nonce: Maybe<U64>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const HASH: B256 = B256::repeat_byte(1);

    fn seen(entry: Value) -> Option<Sighting> {
        serde_json::from_str::<Entry>(&entry.to_string()).ok().map(Into::into)
    }

    #[test]
    fn a_transaction_is_read_and_the_rest_of_it_skipped() {
        let from = Address::repeat_byte(2);
        let entry = json!({
            "blockHash": HASH,
            "from": from,
            "input": "0x00",
            "accessList": [{ "address": from, "storageKeys": [] }],
            "nonce": "0x7",
            "hash": HASH,
            "to": null,
        });
        let sighting = seen(entry).unwrap();
        assert_eq!(sighting, Sighting { hash: HASH, from, nonce: 7 });
        assert_eq!(sighting.sender(), Some((from, 7)));
    }

    #[test]
    fn what_does_not_tell_whose_it_is_is_nobodys() {
        let from = Address::repeat_byte(2);
        for entry in [
            json!(HASH),
            json!({ "hash": HASH }),
            json!({ "hash": HASH, "from": from }),
            json!({ "hash": HASH, "from": from, "nonce": null }),
            json!({ "hash": HASH, "from": null, "nonce": "0x1" }),
            json!({ "hash": HASH, "from": "system", "nonce": "0x1" }),
            json!({ "hash": HASH, "from": from, "nonce": "0xffffffffffffffff" }),
            json!({ "hash": HASH, "from": from, "nonce": format!("0x1{}", "0".repeat(30)) }),
        ] {
            assert_eq!(seen(entry.clone()), Some(Sighting::of_nobody(HASH)), "{entry}");
        }
        assert_eq!(Sighting::of_nobody(HASH).sender(), None);
    }

    #[test]
    fn what_has_no_hash_is_an_error() {
        for entry in [json!(null), json!(7), json!("0x"), json!({}), json!([HASH])] {
            assert_eq!(seen(entry.clone()), None, "{entry}");
        }
    }
}
