//! Amounts and finality as people type them.

use serde_json::{Value, json};
use stile_domain::U256;

/// Units, and how many digits each has after the point.
const UNITS: [(&str, usize); 4] = [("ether", 18), ("gwei", 9), ("eth", 18), ("wei", 0)];

/// `1eth`, `0.5eth`, `20gwei`, `1000` (wei) or `0x3e8`, as a decimal number of wei.
pub(super) fn wei(text: &str) -> Result<String, String> {
    let bad = || "must be an amount such as 1eth, 0.5eth, 20gwei, 1000 (wei) or 0x3e8".to_owned();
    let large = || "must be below 2^256 wei".to_owned();
    if let Some(digits) = text.strip_prefix("0x") {
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(bad());
        }
        return U256::from_str_radix(digits, 16).map(|wei| wei.to_string()).map_err(|_| large());
    }
    let unit = UNITS.iter().find_map(|(unit, places)| Some((text.strip_suffix(unit)?, *places)));
    let (number, places) = unit.unwrap_or((text, 0));
    let number = number.trim_end();
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let ends_in_point = number.ends_with('.');
    if whole.is_empty() || ends_in_point || !digits(whole) || !digits(part) {
        return Err(bad());
    }
    if part.len() > places {
        return Err("has more digits after the point than there are wei in the unit".to_owned());
    }
    let all = format!("{whole}{part:0<places$}");
    U256::from_str_radix(&all, 10).map(|wei| wei.to_string()).map_err(|_| large())
}

/// `3`, `safe` or `finalized`, as the server takes it.
pub(super) fn finality(text: &str) -> Result<Value, String> {
    match text {
        "safe" | "finalized" => Ok(json!(text)),
        count => {
            let count = count.parse::<u32>().ok().filter(|_| !count.starts_with('+'));
            let count = count.ok_or("must be a number of confirmations, safe or finalized")?;
            Ok(json!({ "confirmations": count }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_wei_in_the_end() {
        for (text, expected) in [
            ("0", "0"),
            ("1000", "1000"),
            ("1000wei", "1000"),
            ("1eth", "1000000000000000000"),
            ("1 eth", "1000000000000000000"),
            ("1ether", "1000000000000000000"),
            ("0.5eth", "500000000000000000"),
            ("0.000000000000000001eth", "1"),
            ("20gwei", "20000000000"),
            ("1.5gwei", "1500000000"),
            ("0x3e8", "1000"),
        ] {
            assert_eq!(wei(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn slips_are_refused() {
        let huge = "9".repeat(80);
        for text in [
            "",
            "eth",
            "-1",
            "+1",
            "1.5",
            "1.5wei",
            ".5eth",
            "1.eth",
            "1e18",
            "1,000",
            "0x",
            "0xzz",
            "1 000",
            "0.0000000000000000001eth",
            "1.2.3eth",
            "1ETH",
            "ten",
            &huge,
        ] {
            assert!(wei(text).is_err(), "{text}");
        }
    }

    #[test]
    fn finality_is_a_number_or_a_word() {
        assert_eq!(finality("3"), Ok(json!({ "confirmations": 3 })));
        assert_eq!(finality("safe"), Ok(json!("safe")));
        for text in ["", "-1", "+1", "1.5", "latest", "4294967296"] {
            assert!(finality(text).is_err(), "{text}");
        }
    }
}
