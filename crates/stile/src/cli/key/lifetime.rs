//! How long a key is good for, as people say it.

use std::time::Duration;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
const LONGEST: u64 = 3650 * DAY;

/// Reads `12h`, `90d` or `52w`.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "s" => Some(1),
        "m" => Some(60),
        "h" => Some(HOUR),
        "d" => Some(DAY),
        "w" => Some(7 * DAY),
        _ => None,
    };
    let seconds = seconds.zip(number.parse::<u64>().ok());
    let seconds = seconds.and_then(|(unit, number)| number.checked_mul(unit));
    match seconds {
        Some(seconds @ 1..=LONGEST) => Ok(Duration::from_secs(seconds)),
        Some(_) => Err("must be from 1s to 3650d".to_owned()),
        None => Err("must be a whole number and a unit: 12h, 90d, 52w".to_owned()),
    }
}

/// The same, in the largest unit that fits.
pub(super) fn shown(time: Duration) -> String {
    let seconds = time.as_secs();
    let fits = |(unit, _): &(u64, &str)| seconds.is_multiple_of(*unit);
    let units = [(DAY, "d"), (HOUR, "h"), (60, "m")];
    let (unit, name) = units.into_iter().find(fits).unwrap_or((1, "s"));
    format!("{}{name}", seconds / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_have_units() {
        for (text, seconds) in
            [("1s", 1), ("5m", 300), ("12h", 43_200), ("90d", 7_776_000), ("52w", 31_449_600)]
        {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["1s", "90s", "5m", "12h", "25h", "90d"] {
            assert_eq!(shown(parse(text).unwrap()), text);
        }
        for bad in ["", "90", "d", "1.5d", "-1d", "90 d", "0d", "1y", "3651d", "99999999999999999d"]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
