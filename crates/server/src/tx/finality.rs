//! The evidence a transaction asks for, as callers write it.

use std::fmt;

use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use stile_domain::Finality;
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, openapi};

use crate::tx::value::nothing_more;

/// More blocks than any chain reorganises by.
const MOST_CONFIRMATIONS: u32 = 100_000;

/// `{"confirmations": 20}`, `"safe"` or `"finalized"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FinalityText(pub(crate) Finality);

impl Serialize for FinalityText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

struct FinalityVisitor;

impl<'de> Visitor<'de> for FinalityVisitor {
    type Value = FinalityText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{\"confirmations\": n}, \"safe\" or \"finalized\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<FinalityText, E> {
        match text {
            "safe" => Ok(FinalityText(Finality::Safe)),
            "finalized" => Ok(FinalityText(Finality::Finalized)),
            _ => Err(E::custom("must be {\"confirmations\": n}, \"safe\" or \"finalized\"")),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FinalityText, A::Error> {
        let Some(Known::Confirmations) = map.next_key()? else {
            return Err(A::Error::missing_field("confirmations"));
        };
        let Count(count) = map.next_value()?;
        nothing_more(&mut map)?;
        Ok(FinalityText(Finality::Confirmations(count)))
    }
}

/// The one field there is.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Known {
    Confirmations,
}

/// A number of blocks that makes sense.
struct Count(u32);

impl Visitor<'_> for Count {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 0 to {MOST_CONFIRMATIONS}")
    }

    fn visit_u64<E: Error>(self, count: u64) -> Result<Self, E> {
        let fits = u32::try_from(count).ok().filter(|count| *count <= MOST_CONFIRMATIONS);
        fits.map(Self).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(count), &self))
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self(0))
    }
}

impl<'de> Deserialize<'de> for FinalityText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FinalityVisitor)
    }
}

impl PartialSchema for FinalityText {
    fn schema() -> RefOr<Schema> {
        let count = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(0))
            .maximum(Some(MOST_CONFIRMATIONS));
        let blocks = ObjectBuilder::new()
            .schema_type(Type::Object)
            .property("confirmations", count)
            .required("confirmations")
            .additional_properties(Some(openapi::schema::AdditionalProperties::FreeForm(false)));
        let tag =
            ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["safe", "finalized"]));
        OneOfBuilder::new()
            .item(blocks)
            .item(tag)
            .description(Some(
                "The evidence to wait for: a number of blocks on top of its own (0: mined is \
                 enough), or the chain's word",
            ))
            .into()
    }
}

impl ToSchema for FinalityText {
    fn name() -> std::borrow::Cow<'static, str> {
        "Finality".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Option<Finality> {
        serde_json::from_str(json).ok().map(|FinalityText(finality)| finality)
    }

    #[test]
    fn what_is_written_can_be_read_back() {
        for finality in [
            Finality::Confirmations(0),
            Finality::Confirmations(MOST_CONFIRMATIONS),
            Finality::Safe,
            Finality::Finalized,
        ] {
            let json = serde_json::to_string(&FinalityText(finality)).unwrap();
            assert_eq!(read(&json), Some(finality), "{json}");
        }
    }

    #[test]
    fn nothing_else_is_taken() {
        for json in [
            "\"latest\"",
            "\"Safe\"",
            "\"\"",
            "3",
            "\"3\"",
            "{}",
            "[]",
            "null",
            "true",
            "{\"safe\": null}",
            "{\"confirmations\": -1}",
            "{\"confirmations\": 100001}",
            "{\"confirmations\": 1.5}",
            "{\"confirmations\": \"3\"}",
            "{\"confirmations\": 3, \"more\": 1}",
            "{\"confirmations\": 3, \"confirmations\": 3}",
        ] {
            assert_eq!(read(json), None, "{json}");
        }
    }
}
