//! Durations as people write them: a whole number and a unit.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Deserializer, Error as _, Visitor};
use serde::{Deserialize, Serialize, Serializer};

const MILLIS_PER_SECOND: u64 = 1_000;
const MILLIS_PER_MINUTE: u64 = 60 * MILLIS_PER_SECOND;
const MILLIS_PER_HOUR: u64 = 60 * MILLIS_PER_MINUTE;
const MILLIS_PER_DAY: u64 = 24 * MILLIS_PER_HOUR;

/// Below this, whole minutes are shown as seconds, the way time-outs are usually compared.
const SHOWN_IN_MINUTES_FROM_MILLIS: u64 = 5 * MILLIS_PER_MINUTE;

/// Below this, whole days are shown as hours.
const SHOWN_IN_DAYS_FROM_MILLIS: u64 = 2 * MILLIS_PER_DAY;

/// A duration written as `500ms`, `10s`, `2m`, `1h` or `30d`.
///
/// A number without a unit is refused rather than guessed at: `10` means seconds to one reader and
/// milliseconds to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HumanDuration(Duration);

/// The text is not a whole number followed by one of the units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(r#"a duration is a whole number and a unit, such as "500ms", "10s", "2m", "1h" or "30d""#)]
pub struct NotADuration;

impl HumanDuration {
    /// A duration of whole milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// A duration of whole seconds.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// The duration for the rest of the program.
    #[must_use]
    pub const fn get(self) -> Duration {
        self.0
    }
}

impl From<HumanDuration> for Duration {
    fn from(duration: HumanDuration) -> Self {
        duration.0
    }
}

impl FromStr for HumanDuration {
    type Err = NotADuration;

    fn from_str(text: &str) -> Result<Self, NotADuration> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let millis_per_unit = match unit {
            "ms" => 1,
            "s" => MILLIS_PER_SECOND,
            "m" => MILLIS_PER_MINUTE,
            "h" => MILLIS_PER_HOUR,
            "d" => MILLIS_PER_DAY,
            _ => return Err(NotADuration),
        };
        let number: u64 = number.parse().map_err(|_| NotADuration)?;
        number.checked_mul(millis_per_unit).map(Self::from_millis).ok_or(NotADuration)
    }
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if millis >= SHOWN_IN_DAYS_FROM_MILLIS && millis.is_multiple_of(MILLIS_PER_DAY) {
            write!(formatter, "{}d", millis / MILLIS_PER_DAY)
        } else if millis > 0 && millis.is_multiple_of(MILLIS_PER_HOUR) {
            write!(formatter, "{}h", millis / MILLIS_PER_HOUR)
        } else if millis >= SHOWN_IN_MINUTES_FROM_MILLIS && millis.is_multiple_of(MILLIS_PER_MINUTE)
        {
            write!(formatter, "{}m", millis / MILLIS_PER_MINUTE)
        } else if millis.is_multiple_of(MILLIS_PER_SECOND) {
            write!(formatter, "{}s", millis / MILLIS_PER_SECOND)
        } else {
            write!(formatter, "{millis}ms")
        }
    }
}

impl Serialize for HumanDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HumanDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = HumanDuration;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(r#"a duration with a unit, such as "10s""#)
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<HumanDuration, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Text).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::HumanDuration;

    #[test]
    fn reads_each_unit() {
        for (text, millis) in [
            ("0s", 0),
            ("500ms", 500),
            ("10s", 10_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("30d", 2_592_000_000),
        ] {
            assert_eq!(text.parse(), Ok(HumanDuration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_not_a_number_and_a_unit() {
        for text in [
            "",
            "10",
            "s",
            "-1s",
            "+1s",
            "1.5s",
            "10 s",
            "10S",
            "1m30s",
            "1w",
            "99999999999999999999h",
            "18446744073709551615h",
        ] {
            assert!(text.parse::<HumanDuration>().is_err(), "{text}");
        }
    }

    #[test]
    fn shows_what_reads_back_as_the_same() {
        for (given, shown) in [
            ("60s", "60s"),
            ("2m", "120s"),
            ("10m", "10m"),
            ("3600s", "1h"),
            ("1500ms", "1500ms"),
            ("0h", "0s"),
            ("1d", "24h"),
            ("720h", "30d"),
        ] {
            let duration: HumanDuration = given.parse().expect("a duration");
            assert_eq!(duration.to_string(), shown);
            assert_eq!(shown.parse(), Ok(duration));
        }
    }

    #[test]
    fn a_bare_number_is_told_to_have_a_unit() {
        let error = toml::Value::Integer(10).try_into::<HumanDuration>().expect_err("no unit");
        assert!(error.message().contains(r#"a duration with a unit, such as "10s""#), "{error}");
    }
}
