//! Amounts that do not fit a JSON number, as decimal text.

use serde::{Deserialize, Deserializer, Serializer, de::Error};

/// Writes an amount.
pub fn serialize<S: Serializer>(amount: &u128, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(amount)
}

/// Reads one.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u128, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| D::Error::custom("must be a decimal number in a string"))
}

/// Amounts that may be left out.
pub mod optional {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// Writes an amount.
    pub fn serialize<S: Serializer>(
        amount: &Option<u128>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match amount {
            Some(amount) => serializer.collect_str(amount),
            None => serializer.serialize_none(),
        }
    }

    /// Reads one.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<u128>, D::Error> {
        let text: Option<String> = Option::deserialize(deserializer)?;
        let amount = text.map(|text| text.parse()).transpose();
        amount.map_err(|_| D::Error::custom("must be a decimal number in a string"))
    }
}
