//! Whether an account can pay for all that is open on its lane.
//!
//! It is what chain nodes ask for themselves: the balance has to cover the value and all of the gas at
//! the highest price offered, of everything that the account has in the queue.

use alloy_primitives::U256;

/// What a transaction costs at most: what it carries, and all of its gas at the highest price offered.
pub fn cost_of(value: U256, gas: u64, price: u128) -> U256 {
    value.saturating_add(U256::from(gas).saturating_mul(U256::from(price)))
}

/// An account cannot pay for one more transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the account has {balance} wei and would have to have {}: this transaction costs up to {cost} wei, \
     and what is open on its lane up to {queued}",
    queued.saturating_add(*cost)
)]
pub struct BalanceTooLow {
    /// What the account has, in wei.
    pub balance: U256,
    /// What everything that is open on its lane may cost.
    pub queued: U256,
    /// What this one may cost.
    pub cost: U256,
}

impl BalanceTooLow {
    /// What it would have to have: enough for both together.
    pub fn needed(&self) -> U256 {
        self.queued.saturating_add(self.cost)
    }
}

/// Whether an account that has this much can pay for what is open, and for one more that costs so much.
/// What costs nothing is always paid for.
pub fn check_balance(balance: U256, queued: U256, cost: U256) -> Result<(), BalanceTooLow> {
    let low = BalanceTooLow { balance, queued, cost };
    if cost.is_zero() || low.needed() <= balance { Ok(()) } else { Err(low) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hole_37_a_balance_covers_the_queue_and_not_one_transaction_alone() {
        for (what, balance, queued, cost, fits) in [
            ("one that is paid for", 100, 0, 100, true),
            ("a wei short", 99, 0, 100, false),
            ("the second of two", 199, 100, 100, false),
            ("both paid for", 200, 100, 100, true),
            ("gas for nothing", 0, 0, 0, true),
            ("the same behind one that costs", 50, 100, 0, true),
            ("an empty account", 0, 0, 1, false),
        ] {
            let [balance, queued, cost] = [balance, queued, cost].map(U256::from);
            let checked = check_balance(balance, queued, cost);
            assert_eq!(checked.is_ok(), fits, "{what}: {checked:?}");
            if let Err(low) = checked {
                assert_eq!(low.needed(), queued + cost, "{what}");
                let words = low.to_string();
                for number in [balance, queued, cost, low.needed()] {
                    assert!(words.contains(&number.to_string()), "{what}: {words}");
                }
            }
        }
    }

    #[test]
    fn no_amount_is_too_large() {
        assert_eq!(cost_of(U256::from(5), 21_000, 2), U256::from(42_005));
        assert_eq!(cost_of(U256::MAX, u64::MAX, u128::MAX), U256::MAX);
        assert!(check_balance(U256::MAX, U256::from(1), U256::MAX).is_ok());
        assert!(check_balance(U256::from(1), U256::MAX, U256::MAX).is_err());
    }
}
