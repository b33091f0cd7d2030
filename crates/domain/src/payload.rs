//! What a transaction is to do, and when two requests are the same.

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{Finality, wei};

/// The largest call data taken. Chain nodes refuse whole transactions above 128 KiB.
pub const DATA_LIMIT: usize = 120 * 1024;

/// What a transaction is to do. Amounts are in wei.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Payload {
    /// Whom it goes to; `None` deploys a contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Address>,
    /// What it carries.
    #[serde(default)]
    pub value: U256,
    /// Call data, or a contract's code.
    #[serde(default)]
    pub data: Bytes,
    /// The most gas it may use; estimated where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gas_limit: Option<u64>,
    /// EIP-1559: the most paid for a unit of gas.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "wei::optional")]
    pub max_fee_per_gas: Option<u128>,
    /// EIP-1559: the most paid to whoever makes the block.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "wei::optional")]
    pub max_priority_fee_per_gas: Option<u128>,
    /// A transaction of the old kind, at this price.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "wei::optional")]
    pub gas_price: Option<u128>,
    /// The most that any attempt may offer for a unit of gas. Where it is left out, the stated price
    /// is the limit, and where no price is stated, the chain's.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "wei::optional")]
    pub fee_limit: Option<u128>,
    /// Whether it is made anew, as another transaction, if somebody else's takes its nonce.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resend_if_replaced: bool,
}

/// A payload that no chain would take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct PayloadError {
    /// The field at fault.
    pub field: &'static str,
    /// What is wrong with it.
    pub why: String,
}

impl Payload {
    /// The price that the caller states, the most it is ready to pay for a unit of gas.
    pub fn stated_price(&self) -> Option<u128> {
        self.gas_price.or(self.max_fee_per_gas)
    }

    /// The most that an attempt may offer that the caller has not asked for by itself: what the
    /// caller says, within what is allowed on the chain.
    pub fn limit(&self, on_chain: u128) -> u128 {
        self.fee_limit.or(self.stated_price()).map_or(on_chain, |limit| limit.min(on_chain))
    }

    /// Whether it makes sense at all.
    pub fn check(&self) -> Result<(), PayloadError> {
        let error = |field, why: &str| Err(PayloadError { field, why: why.to_owned() });
        if self.data.len() > DATA_LIMIT {
            return error("data", "must not be longer than 122880 bytes");
        }
        if self.to.is_none() && self.data.is_empty() {
            return error("to", "must be given, unless data holds a contract to deploy");
        }
        if self.gas_limit.is_some_and(|gas| gas < 21_000) {
            return error("gasLimit", "must be at least 21000, which every transaction needs");
        }
        if self.gas_limit.is_some_and(|gas| gas > i64::MAX as u64) {
            return error(
                "gasLimit",
                "must not be above 9223372036854775807, and no block has as much",
            );
        }
        let new_kind = self.max_fee_per_gas.is_some() || self.max_priority_fee_per_gas.is_some();
        if self.gas_price.is_some() && new_kind {
            return error("gasPrice", "does not go with maxFeePerGas and maxPriorityFeePerGas");
        }
        if let (Some(tip), Some(max)) = (self.max_priority_fee_per_gas, self.max_fee_per_gas)
            && tip > max
        {
            return error("maxPriorityFeePerGas", "must not be above maxFeePerGas");
        }
        if let (Some(limit), Some(price)) = (self.fee_limit, self.stated_price())
            && limit < price
        {
            return error("feeLimit", "must not be below maxFeePerGas or gasPrice");
        }
        Ok(())
    }
}

/// SHA-256 of a request's canonical form. Two requests under one id are the same if and only if
/// these are equal: amounts are numbers however they were written, addresses have no case.
pub fn request_hash(payload: &Payload, finality: Option<&Finality>) -> B256 {
    let form = serde_json::json!({ "payload": payload, "finality": finality });
    B256::from_slice(&Sha256::digest(form.to_string().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer() -> Payload {
        Payload { to: Some(Address::repeat_byte(1)), value: U256::from(5), ..Payload::default() }
    }

    #[test]
    fn the_hash_tells_requests_apart() {
        let hash = request_hash(&transfer(), None);
        assert_eq!(hash, request_hash(&transfer(), None));
        assert_ne!(hash, request_hash(&Payload { gas_limit: Some(21_000), ..transfer() }, None));
        assert_ne!(hash, request_hash(&transfer(), Some(&Finality::Safe)));
        assert_ne!(hash, request_hash(&Payload { value: U256::from(6), ..transfer() }, None));
    }

    #[test]
    fn the_stated_price_is_the_limit_unless_another_is_given() {
        assert_eq!(transfer().limit(100), 100);
        assert_eq!(Payload { gas_price: Some(7), ..transfer() }.limit(100), 7);
        let given = Payload { max_fee_per_gas: Some(7), fee_limit: Some(9), ..transfer() };
        assert_eq!((given.limit(100), given.limit(8)), (9, 8));
    }

    #[test]
    fn absurd_prices_can_be_hashed_and_read_back() {
        let payload = Payload { max_fee_per_gas: Some(u128::MAX), ..transfer() };
        assert_ne!(request_hash(&payload, None), request_hash(&transfer(), None));
        let text = serde_json::to_string(&payload).unwrap();
        assert_eq!(serde_json::from_str::<Payload>(&text).unwrap(), payload);
    }

    #[test]
    fn what_no_chain_would_take_is_named() {
        let field = |payload: Payload| payload.check().unwrap_err().field;
        assert_eq!(field(Payload::default()), "to");
        assert_eq!(field(Payload { gas_limit: Some(20_999), ..transfer() }), "gasLimit");
        let both = Payload { gas_price: Some(1), max_fee_per_gas: Some(1), ..transfer() };
        assert_eq!(field(both), "gasPrice");
        let tip =
            Payload { max_fee_per_gas: Some(1), max_priority_fee_per_gas: Some(2), ..transfer() };
        assert_eq!(field(tip), "maxPriorityFeePerGas");
        let limit = Payload { gas_price: Some(2), fee_limit: Some(1), ..transfer() };
        assert_eq!(field(limit), "feeLimit");
        assert_eq!(field(Payload { data: vec![0; DATA_LIMIT + 1].into(), ..transfer() }), "data");
        assert_eq!(transfer().check(), Ok(()));
    }
}
