//! How long something is kept: for ever, or for a while.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{HumanDuration, NotADuration};

/// The word for no end.
const FOREVER: &str = "forever";

/// How long something is kept, written as `forever` or as a duration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kept {
    /// It is never removed.
    #[default]
    Forever,
    /// It may be removed after this long.
    For(HumanDuration),
}

impl Kept {
    /// The time; `None` for ever.
    #[must_use]
    pub fn get(self) -> Option<Duration> {
        match self {
            Self::Forever => None,
            Self::For(duration) => Some(duration.get()),
        }
    }
}

impl FromStr for Kept {
    type Err = NotADuration;

    fn from_str(text: &str) -> Result<Self, NotADuration> {
        match text {
            FOREVER => Ok(Self::Forever),
            text => text.parse().map(Self::For),
        }
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forever => formatter.write_str(FOREVER),
            Self::For(duration) => duration.fmt(formatter),
        }
    }
}

impl Serialize for Kept {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Kept {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::{HumanDuration, Kept};

    #[test]
    fn shows_what_reads_back_as_the_same() {
        for (text, kept) in [
            ("forever", Kept::Forever),
            ("30d", Kept::For(HumanDuration::from_secs(30 * 24 * 3600))),
            ("12h", Kept::For(HumanDuration::from_secs(12 * 3600))),
        ] {
            assert_eq!(text.parse(), Ok(kept));
            assert_eq!(kept.to_string(), text);
        }
        assert!("always".parse::<Kept>().is_err());
    }
}
