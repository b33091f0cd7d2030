//! Operations and signers as callers write them.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use stile_domain::{Operation, SignerScope};
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Type};
use utoipa::openapi::{self, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::tx::value::Account;

/// What [`SignersText`] asks for.
pub(super) const SIGNERS_RULE: &str = "must be \"all\" or a list of addresses";

/// `read`, `send`, `operate` or `admin`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct OperationText(pub(super) Operation);

impl TryFrom<String> for OperationText {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        text.parse().map(Self).map_err(|_| "must be read, send, operate or admin")
    }
}

/// `"all"`, or a list of addresses.
#[derive(Debug, Clone)]
pub(super) struct SignersText(pub(super) SignerScope);

impl Serialize for SignersText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            SignerScope::All => serializer.serialize_str("all"),
            SignerScope::Only(signers) => {
                serializer.collect_seq(signers.iter().map(|signer| signer.to_string()))
            }
        }
    }
}

struct SignersVisitor;

impl<'de> Visitor<'de> for SignersVisitor {
    type Value = SignersText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"all\" or a list of addresses")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<SignersText, E> {
        match text {
            "all" => Ok(SignersText(SignerScope::All)),
            _ => Err(E::custom(SIGNERS_RULE)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<SignersText, A::Error> {
        let mut signers = BTreeSet::new();
        while let Some(Account(signer)) = list.next_element()? {
            signers.insert(signer);
        }
        Ok(SignersText(SignerScope::Only(signers)))
    }
}

impl<'de> Deserialize<'de> for SignersText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SignersVisitor)
    }
}

impl PartialSchema for SignersText {
    fn schema() -> RefOr<Schema> {
        let all = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["all"]));
        let some =
            ArrayBuilder::new().items(openapi::Ref::from_schema_name("Address")).min_items(Some(1));
        OneOfBuilder::new()
            .item(all)
            .item(some)
            .description(Some("`all`, also those that are added later, or a list of accounts"))
            .into()
    }
}

impl ToSchema for SignersText {
    fn name() -> std::borrow::Cow<'static, str> {
        "KeySigners".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read_back() {
        let some = "[\"0x70997970C51812dc3A010C7d01b50e0d17dc79C8\",\"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266\"]";
        for json in ["\"all\"", some] {
            let read: SignersText = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), json);
        }
    }

    #[test]
    fn nothing_else_is_taken() {
        for json in
            ["\"none\"", "\"\"", "{}", "null", "true", "1", "[\"0x12\"]", "[1]", "[\"all\"]"]
        {
            assert!(serde_json::from_str::<SignersText>(json).is_err(), "{json}");
        }
    }
}
