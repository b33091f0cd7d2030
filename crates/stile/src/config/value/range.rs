//! A shortest and a longest time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{HumanDuration, NotADuration};

/// A shortest and a longest time, written `1s-10s`; one time alone is both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DurationRange {
    /// The shortest.
    pub shortest: HumanDuration,
    /// The longest; not shorter than the shortest.
    pub longest: HumanDuration,
}

impl DurationRange {
    /// Both, in this order.
    #[must_use]
    pub fn get(self) -> (Duration, Duration) {
        (self.shortest.get(), self.longest.get())
    }
}

impl FromStr for DurationRange {
    type Err = NotADuration;

    fn from_str(text: &str) -> Result<Self, NotADuration> {
        let (shortest, longest) = text.split_once('-').unwrap_or((text, text));
        let (shortest, longest): (HumanDuration, HumanDuration) =
            (shortest.trim().parse()?, longest.trim().parse()?);
        if shortest <= longest { Ok(Self { shortest, longest }) } else { Err(NotADuration) }
    }
}

impl fmt::Display for DurationRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.shortest, self.longest)
    }
}

impl Serialize for DurationRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DurationRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::DurationRange;

    #[test]
    fn is_read_and_shown() {
        for (text, shown) in [("1s-10s", "1s-10s"), ("500ms - 2s", "500ms-2s"), ("5s", "5s-5s")] {
            let range: DurationRange = text.parse().expect(text);
            assert_eq!(range.to_string(), shown);
            assert_eq!(range.to_string().parse::<DurationRange>().expect(shown), range);
        }
        for text in ["", "-", "1s-", "10s-1s", "1s-2s-3s", "1-2"] {
            assert!(text.parse::<DurationRange>().is_err(), "{text}");
        }
    }
}
