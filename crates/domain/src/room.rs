//! Room for a replacement below a chain's limit.
//!
//! Chain nodes take a replacement only if it offers an eighth more. So whoever offers all that the limit
//! allows can neither be cancelled nor given up once it is taken.

use crate::{FeePolicy, FeeQuote, Fees, Payload};

/// What a first attempt offers where this is the chain's limit: what the policy says, and where the caller
/// states no price, so much less than the limit that one replacement fits below it. An offer that would
/// not be mined is worse than one that cannot be replaced: if the chain asks for more than that leaves, it
/// is all of the limit.
pub fn first_offer(
    policy: &dyn FeePolicy,
    payload: &Payload,
    quote: &FeeQuote,
    limit: u128,
) -> Fees {
    let most = policy.first(payload, quote, payload.limit(limit));
    if payload.stated_price().is_some() {
        return most;
    }
    let Err(reached) = policy.next(&most, None, limit) else { return most };
    // What a replacement has to offer is a fixed part more.
    let product = limit.checked_mul(most.most());
    let Some(below) = product.and_then(|it| it.checked_div(reached.wanted)) else { return most };
    let less = policy.first(payload, quote, payload.limit(below));
    let is_enough = less.most() >= quote.price();
    let has_room = policy.next(&less, None, limit).is_ok();
    if is_enough && has_room { less } else { most }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Market;

    fn market(max_fee_per_gas: u128, max_priority_fee_per_gas: u128) -> Fees {
        Fees::Market { max_fee_per_gas, max_priority_fee_per_gas }
    }

    #[test]
    fn hole_42_a_first_offer_leaves_room_for_a_replacement() {
        let unstated = Payload::default();
        let stated = Payload { max_fee_per_gas: Some(9_000), ..Payload::default() };
        let limited = Payload { fee_limit: Some(8_900), ..Payload::default() };
        let quote = |base_fee| FeeQuote::Market { base_fee, priority_fee: 10 };
        let legacy = |gas_price| FeeQuote::Legacy { gas_price };
        let limit = 9_000;
        for (what, payload, quote, permille, expected) in [
            ("far below the limit", &unstated, quote(100), 125, market(210, 10)),
            ("just below it", &unstated, quote(4_400), 125, market(7_999, 10)),
            ("cut to it", &unstated, quote(6_000), 125, market(8_000, 10)),
            (
                "the chain asks for all that is left",
                &unstated,
                quote(7_990),
                125,
                market(8_000, 10),
            ),
            ("and for more", &unstated, quote(7_991), 125, market(9_000, 10)),
            ("more than the limit", &unstated, quote(50_000), 125, market(9_000, 10)),
            ("a larger step", &unstated, quote(4_300), 500, market(6_000, 10)),
            ("its caller says so", &stated, quote(6_000), 125, market(9_000, 10)),
            ("its caller allows as much", &limited, quote(6_000), 125, market(7_999, 10)),
            ("of the old kind", &unstated, legacy(7_000), 125, Fees::Legacy { gas_price: 7_000 }),
            ("that is dear", &unstated, legacy(8_500), 125, Fees::Legacy { gas_price: 8_500 }),
        ] {
            let policy = Market { bump_permille: permille };
            assert_eq!(first_offer(&policy, payload, &quote, limit), expected, "{what}");
        }
        let absurd = first_offer(&Market::default(), &unstated, &quote(u128::MAX), u128::MAX);
        assert_eq!(absurd.most(), u128::MAX, "{absurd:?}");
    }

    #[test]
    fn hole_42_what_has_room_can_be_replaced() {
        let policy = Market::default();
        for limit in 2..2_000 {
            let quote = FeeQuote::Market { base_fee: limit / 2, priority_fee: 0 };
            let first = first_offer(&policy, &Payload::default(), &quote, limit);
            assert!(policy.next(&first, None, limit).is_ok(), "{limit}: {first:?}");
            assert!(first.most() >= quote.price(), "{limit}: {first:?}");
        }
    }
}
