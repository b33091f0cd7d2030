//! What API keys are called.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

/// A key's own name for programs. It is no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub Uuid);

impl KeyId {
    /// A new one. Random, because a rule has no clock to make it from.
    pub fn fresh() -> Self {
        Self(Uuid::new_v4())
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A key's name for people: 1 to 64 letters, digits, dots, dashes and underscores. It cannot be
/// mistaken for a [`KeyId`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName(String);

/// The text is no name for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be 1 to 64 letters, digits, dots, dashes and underscores, and not look like a key's id"
)]
pub struct KeyNameError;

impl KeyName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for KeyName {
    type Err = KeyNameError;

    fn from_str(text: &str) -> Result<Self, KeyNameError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let fits = (1..=64).contains(&text.len()) && text.bytes().all(plain);
        let id = Uuid::try_parse(text).is_ok();
        if fits && !id { Ok(Self(text.to_owned())) } else { Err(KeyNameError) }
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_plain_and_no_id() {
        let longest = "n".repeat(64);
        for good in ["ci", "shop-1", "A.b_c", "0", &longest] {
            assert_eq!(good.parse::<KeyName>().unwrap().as_str(), good);
        }
        let id = KeyId::fresh().to_string();
        let bare = id.replace('-', "");
        for bad in ["", " ", "a b", "é", "a/b", &"n".repeat(65), &id, &bare] {
            assert_eq!(bad.parse::<KeyName>(), Err(KeyNameError), "{bad}");
        }
    }
}
