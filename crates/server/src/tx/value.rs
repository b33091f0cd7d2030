//! Amounts, addresses and bytes as callers write them.

use std::fmt;

use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use stile_domain::{Address, Bytes, U256, parse_address};

/// An amount of wei: `"1000"`, `"0x3e8"`, or a JSON integer if it is small enough for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wei(pub(crate) U256);

/// What a unit of gas costs, in wei.
///
/// Nobody pays eighteen ether for a unit of gas; more than that is a slip of the keyboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Price(pub(crate) u128);

/// An amount of gas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gas(pub(crate) u64);

const WHOLE: &str = "must be a whole number: \"1000\", \"0x3e8\" or 1000";

/// Reads a decimal or `0x` number, and nothing else that a library might let pass.
fn amount(text: &str) -> Result<U256, String> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let fits = |byte: u8| char::from(byte).is_digit(radix);
    if digits.is_empty() || !digits.bytes().all(fits) {
        return Err(WHOLE.to_owned());
    }
    U256::from_str_radix(digits, u64::from(radix)).map_err(|_| "must be below 2^256".to_owned())
}

struct AmountVisitor;

impl Visitor<'_> for AmountVisitor {
    type Value = U256;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number, 0 or more, as text (decimal or 0x) or as a JSON integer")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<U256, E> {
        amount(text).map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<U256, E> {
        Ok(U256::from(number))
    }
}

impl<'de> Deserialize<'de> for Wei {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AmountVisitor).map(Self)
    }
}

/// An amount that fits 64 bits.
fn small<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let Wei(amount) = Wei::deserialize(deserializer)?;
    u64::try_from(amount).map_err(|_| D::Error::custom(format!("must be at most {}", u64::MAX)))
}

impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        small(deserializer).map(|price| Self(u128::from(price)))
    }
}

impl<'de> Deserialize<'de> for Gas {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        small(deserializer).map(Self)
    }
}

/// An account. Mixed case must be its EIP-55 checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account(pub(crate) Address);

impl<'de> Deserialize<'de> for Account {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_address(&text).map(Self).map_err(D::Error::custom)
    }
}

/// Bytes as `0x` and pairs of hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallData(pub(crate) Bytes);

impl<'de> Deserialize<'de> for CallData {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = text.strip_prefix("0x").and_then(|digits| digits.parse().ok());
        let bytes = bytes.filter(|_| !text.starts_with("0x0x"));
        bytes
            .map(Self)
            .ok_or_else(|| D::Error::custom("must be 0x followed by pairs of hexadecimal digits"))
    }
}

/// A part of a body that has named fields. Left to itself a struct would also read from an array.
pub(crate) fn object<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct ObjectVisitor<T>(std::marker::PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a JSON object")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(serde::de::value::MapAccessDeserializer::new(map))
        }
    }

    deserializer.deserialize_any(ObjectVisitor(std::marker::PhantomData))
}

/// The rest of an object whose fields are all known, so that a further one is an error.
pub(crate) fn nothing_more<'de, A: MapAccess<'de>>(map: &mut A) -> Result<(), A::Error> {
    match map.next_entry::<String, IgnoredAny>()? {
        None => Ok(()),
        Some((name, _)) => Err(A::Error::custom(format!("has one field too many: {name}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wei(json: &str) -> Option<U256> {
        serde_json::from_str(json).ok().map(|Wei(amount)| amount)
    }

    #[test]
    fn one_amount_has_three_spellings() {
        for json in ["\"1000\"", "\"0x3e8\"", "\"0x3E8\"", "1000", "\"0001000\""] {
            assert_eq!(wei(json), Some(U256::from(1000)), "{json}");
        }
        assert_eq!(wei(&format!("\"{}\"", U256::MAX)), Some(U256::MAX));
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        let bad = [
            "\"\"",
            "\"0x\"",
            "\"-1\"",
            "-1",
            "1.5",
            "\"1.5\"",
            "\"+1\"",
            "\" 1\"",
            "\"1_000\"",
            "\"0X1\"",
            "\"1e3\"",
            "\"1eth\"",
            "\"ff\"",
            "\"0xfg\"",
            "true",
            "null",
            "[]",
            "{}",
            "1e3",
            "18446744073709551616",
        ];
        for json in bad {
            assert_eq!(wei(json), None, "{json}");
        }
        let too_large = format!("\"0x1{}\"", "0".repeat(64));
        assert_eq!(wei(&too_large), None);
    }

    #[test]
    fn prices_and_gas_fit_64_bits() {
        let largest = format!("\"{}\"", u64::MAX);
        let Gas(gas) = serde_json::from_str(&largest).unwrap();
        let Price(price) = serde_json::from_str(&largest).unwrap();
        assert_eq!((gas, price), (u64::MAX, u128::from(u64::MAX)));
        assert!(serde_json::from_str::<Gas>("\"18446744073709551616\"").is_err());
        assert!(serde_json::from_str::<Price>("\"0x10000000000000000\"").is_err());
    }

    #[test]
    fn call_data_is_pairs_of_digits() {
        let CallData(data) = serde_json::from_str("\"0xaBcd\"").unwrap();
        assert_eq!(data.as_ref(), [0xab, 0xcd]);
        let CallData(none) = serde_json::from_str("\"0x\"").unwrap();
        assert!(none.is_empty());
        for json in ["\"\"", "\"abcd\"", "\"0xabc\"", "\"0xzz\"", "\"0x0xab\"", "1", "[1]", "null"]
        {
            assert!(serde_json::from_str::<CallData>(json).is_err(), "{json}");
        }
    }
}
