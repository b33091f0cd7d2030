//! The gas that a transaction costs before anything of it is run.
//!
//! A transaction whose gas limit is below that is in no block, ever. Most nodes refuse it at once. Some
//! take it and leave it out of every block, and then nothing behind it is mined either.

use crate::Payload;

/// Every transaction costs this much.
const EACH: u64 = 21_000;

/// Making a contract costs this much more (EIP-2).
const CREATION: u64 = 32_000;

/// A byte of call data that is zero, and one that is not (EIP-2028), and what that was before Istanbul.
const ZERO_BYTE: u64 = 4;
const OTHER_BYTE: u64 = 16;
const DEAR_BYTE: u64 = 68;

/// A word of a contract's code that is to be run once (EIP-3860).
const INITCODE_WORD: u64 = 2;

/// An address in an access list, and a storage key (EIP-2930).
const LISTED_ADDRESS: u64 = 2_400;
const LISTED_KEY: u64 = 1_900;

/// The least for a token of call data (EIP-7623), and how many tokens a byte is that is not zero.
const FLOOR_OF_TOKEN: u64 = 10;
const TOKENS_OF_OTHER_BYTE: u64 = 4;

/// Which of the rules a chain has that others do not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GasRules {
    /// Code that makes a contract costs by the word: EIP-3860, from Shanghai on.
    pub counts_initcode: bool,
    /// Call data has a least price, however little is run: EIP-7623, from Prague on.
    pub has_data_floor: bool,
    /// Call data has its old price: before EIP-2028, which came with Istanbul.
    pub has_dear_data: bool,
}

impl GasRules {
    /// All of them: nothing costs more than by these.
    pub const ALL: Self = Self { counts_initcode: true, has_data_floor: true, has_dear_data: true };

    /// The rules of either.
    pub fn or(self, other: Self) -> Self {
        Self {
            counts_initcode: self.counts_initcode || other.counts_initcode,
            has_data_floor: self.has_data_floor || other.has_data_floor,
            has_dear_data: self.has_dear_data || other.has_dear_data,
        }
    }
}

/// Nodes round an estimate up by as much as one part in this.
const ROUNDED: u64 = 50;

/// Whether call data has its old price, by an estimate of a transfer of nothing with so many bytes that are
/// not zero, to an account without code. `None` if the chain counts by no rule that is known.
pub fn shows_dear_data(estimate: u64, bytes: u64) -> Option<bool> {
    let cost = |byte: u64| EACH.saturating_add(bytes.saturating_mul(byte));
    let most = |byte: u64| cost(byte) + cost(byte) / ROUNDED;
    let cheap = cost(OTHER_BYTE)..=most(FLOOR_OF_TOKEN * TOKENS_OF_OTHER_BYTE);
    let dear = cost(DEAR_BYTE)..=most(DEAR_BYTE);
    match estimate {
        estimate if cheap.contains(&estimate) => Some(false),
        estimate if dear.contains(&estimate) => Some(true),
        _ => None,
    }
}

/// How much an access list names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AccessListSize {
    /// Its addresses.
    pub addresses: u64,
    /// Their storage keys, of all of them together.
    pub storage_keys: u64,
}

/// A gas limit that is not enough to begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a gas limit of {stated} is below {least}, which this transaction costs before anything of it is run: \
     no block would have it"
)]
pub struct GasBelowIntrinsic {
    /// The gas limit.
    pub stated: u64,
    /// What it would have to be at least.
    pub least: u64,
}

/// What a transaction costs before anything of it is run.
pub fn intrinsic_gas(payload: &Payload, listed: AccessListSize, rules: GasRules) -> u64 {
    let length = payload.data.len() as u64;
    let zeros = payload.data.iter().filter(|byte| **byte == 0).count() as u64;
    let others = length - zeros;
    let other_byte = if rules.has_dear_data { DEAR_BYTE } else { OTHER_BYTE };
    let data = zeros * ZERO_BYTE + others * other_byte;
    let listed = listed
        .addresses
        .saturating_mul(LISTED_ADDRESS)
        .saturating_add(listed.storage_keys.saturating_mul(LISTED_KEY));
    let creation = match payload.to {
        Some(_) => 0,
        None if rules.counts_initcode => CREATION + length.div_ceil(32) * INITCODE_WORD,
        None => CREATION,
    };
    let needed = (EACH + data + creation).saturating_add(listed);
    let floor = EACH + FLOOR_OF_TOKEN * (zeros + others * TOKENS_OF_OTHER_BYTE);
    if rules.has_data_floor { needed.max(floor) } else { needed }
}

/// Whether a gas limit is enough to begin with.
pub fn check_intrinsic(
    payload: &Payload,
    stated: u64,
    rules: GasRules,
) -> Result<(), GasBelowIntrinsic> {
    let least = intrinsic_gas(payload, AccessListSize::default(), rules);
    if stated < least { Err(GasBelowIntrinsic { stated, least }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;

    const OLD: GasRules =
        GasRules { counts_initcode: false, has_data_floor: false, has_dear_data: false };
    const SHANGHAI: GasRules = GasRules { counts_initcode: true, ..OLD };
    const PRAGUE: GasRules = GasRules { has_data_floor: true, ..SHANGHAI };
    const PETERSBURG: GasRules = GasRules { has_dear_data: true, ..OLD };

    fn call(zeros: usize, others: usize) -> Payload {
        let data = [vec![0; zeros], vec![1; others]].concat();
        Payload { to: Some(Address::ZERO), data: data.into(), ..Payload::default() }
    }

    fn creation(zeros: usize, others: usize) -> Payload {
        Payload { to: None, ..call(zeros, others) }
    }

    #[test]
    fn hole_37_what_a_transaction_costs_before_anything_is_run() {
        for (what, payload, old, shanghai, prague) in [
            ("a transfer", call(0, 0), 21_000, 21_000, 21_000),
            ("a byte", call(0, 1), 21_016, 21_016, 21_040),
            ("a zero", call(1, 0), 21_004, 21_004, 21_010),
            ("both", call(3, 2), 21_044, 21_044, 21_110),
            ("a call", call(28, 40), 21_752, 21_752, 22_880),
            ("the least creation", creation(0, 1), 53_016, 53_018, 53_018),
            ("a word", creation(16, 16), 53_320, 53_322, 53_322),
            ("a byte more than a word", creation(16, 17), 53_336, 53_340, 53_340),
            // 21,000 + 10 * 4 * 2,000 is more than 53,000 + 16 * 2,000 + 2 * 63.
            ("a creation below the floor", creation(0, 2_000), 85_000, 85_126, 101_000),
            ("a creation above it", creation(0, 1_000), 69_000, 69_064, 69_064),
        ] {
            for (rules, expected) in [(OLD, old), (SHANGHAI, shanghai), (PRAGUE, prague)] {
                let none = AccessListSize::default();
                assert_eq!(intrinsic_gas(&payload, none, rules), expected, "{what} {rules:?}");
            }
        }
    }

    #[test]
    fn hole_37_before_istanbul_call_data_costs_more() {
        for (what, payload, least) in [
            ("a transfer", call(0, 0), 21_000),
            ("a zero", call(1, 0), 21_004),
            ("a byte", call(0, 1), 21_068),
            ("a hundred", call(0, 100), 27_800),
            ("a creation", creation(3, 2), 53_148),
        ] {
            let none = AccessListSize::default();
            assert_eq!(intrinsic_gas(&payload, none, PETERSBURG), least, "{what}");
            for rules in [OLD, SHANGHAI, PRAGUE, PETERSBURG] {
                let all = intrinsic_gas(&payload, none, GasRules::ALL);
                assert!(intrinsic_gas(&payload, none, rules) <= all, "{what} {rules:?}");
            }
        }
    }

    #[test]
    fn hole_37_an_estimate_shows_what_call_data_costs() {
        for (estimate, expected) in [
            (21_000, None),
            (22_599, None),
            // Istanbul, and the floor of Prague, and both as geth rounds them.
            (22_600, Some(false)),
            (22_939, Some(false)),
            (25_000, Some(false)),
            (25_375, Some(false)),
            (27_799, None),
            (27_800, Some(true)),
            (28_217, Some(true)),
            // A chain that counts by rules of its own.
            (28_357, None),
            (150_000, None),
            (u64::MAX, None),
        ] {
            assert_eq!(shows_dear_data(estimate, 100), expected, "{estimate}");
        }
    }

    #[test]
    fn an_access_list_costs_by_what_it_names() {
        for (addresses, storage_keys, payload, rules, expected) in [
            (1, 0, call(0, 0), PRAGUE, 23_400),
            (1, 1, call(0, 0), PRAGUE, 25_300),
            (2, 3, creation(0, 1), OLD, 53_016 + 4_800 + 5_700),
            // The floor takes no notice of it.
            (1, 0, call(0, 1_000), PRAGUE, 61_000),
            (u64::MAX, u64::MAX, call(0, 0), PRAGUE, u64::MAX),
        ] {
            let listed = AccessListSize { addresses, storage_keys };
            assert_eq!(intrinsic_gas(&payload, listed, rules), expected, "{listed:?} {rules:?}");
        }
    }

    #[test]
    fn hole_37_a_gas_limit_below_it_is_told_what_it_would_have_to_be() {
        let check = |stated, rules| check_intrinsic(&creation(0, 2_000), stated, rules);
        assert_eq!(check(85_000, OLD), Ok(()));
        let refused = check(84_999, OLD).unwrap_err();
        assert_eq!(refused, GasBelowIntrinsic { stated: 84_999, least: 85_000 });
        assert!(refused.to_string().contains("84999") && refused.to_string().contains("85000"));
        assert_eq!(check(85_000, PRAGUE).unwrap_err().least, 101_000);
        assert_eq!(check(101_000, PRAGUE), Ok(()));
    }

    #[test]
    fn rules_are_added_to() {
        let floor = GasRules { has_data_floor: true, ..OLD };
        for (one, other, both) in [
            (OLD, OLD, OLD),
            (OLD, SHANGHAI, SHANGHAI),
            (PRAGUE, OLD, PRAGUE),
            (SHANGHAI, floor, PRAGUE),
        ] {
            assert_eq!(one.or(other), both);
        }
    }
}
