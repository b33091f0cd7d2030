//! Reading parameters.

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::RpcError;

/// A block, as callers name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockId {
    Latest,
    Pending,
    Earliest,
    Safe,
    Finalized,
    Number(u64),
    Hash(B256),
}

/// The parameters of a request, by place.
#[derive(Debug)]
pub(crate) struct Params(Vec<Value>);

impl Params {
    /// From the `params` of a request, which may be absent.
    pub(crate) fn new(params: Option<Value>) -> Result<Self, RpcError> {
        match params {
            None | Some(Value::Null) => Ok(Self(Vec::new())),
            Some(Value::Array(params)) => Ok(Self(params)),
            Some(_) => Err(RpcError::params("non-array args")),
        }
    }

    /// What is at a place; null if nothing is.
    pub(crate) fn value(&mut self, place: usize) -> Value {
        self.0.get_mut(place).map(Value::take).unwrap_or_default()
    }

    /// What has to be at a place.
    pub(crate) fn required<T: DeserializeOwned>(&mut self, place: usize) -> Result<T, RpcError> {
        match self.value(place) {
            Value::Null => {
                Err(RpcError::params(format!("missing value for required argument {place}")))
            }
            value => parse(place, value),
        }
    }

    /// What may be at a place.
    pub(crate) fn optional<T: DeserializeOwned>(
        &mut self,
        place: usize,
    ) -> Result<Option<T>, RpcError> {
        match self.value(place) {
            Value::Null => Ok(None),
            value => parse(place, value).map(Some),
        }
    }

    /// A number that has to be at a place: `0x` and hexadecimal digits, or a JSON number.
    pub(crate) fn number(&mut self, place: usize) -> Result<u64, RpcError> {
        match self.optional_number(place)? {
            Some(number) => Ok(number),
            None => Err(RpcError::params(format!("missing value for required argument {place}"))),
        }
    }

    /// The same where it may be absent.
    pub(crate) fn optional_number(&mut self, place: usize) -> Result<Option<u64>, RpcError> {
        match self.value(place) {
            Value::Null => Ok(None),
            value => number(&value)
                .map(Some)
                .ok_or_else(|| RpcError::params(format!("invalid argument {place}: not a number"))),
        }
    }

    /// The block at a place; the latest if none is.
    pub(crate) fn block(&mut self, place: usize) -> Result<BlockId, RpcError> {
        match self.value(place) {
            Value::Null => Ok(BlockId::Latest),
            value => block_id(&value)
                .ok_or_else(|| RpcError::params(format!("invalid argument {place}: not a block"))),
        }
    }
}

fn parse<T: DeserializeOwned>(place: usize, value: Value) -> Result<T, RpcError> {
    serde_json::from_value(value)
        .map_err(|error| RpcError::params(format!("invalid argument {place}: {error}")))
}

/// A number, as callers write it.
pub(crate) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => u64::from_str_radix(text.strip_prefix("0x")?, 16).ok(),
        _ => None,
    }
}

/// A block, as callers name it: a tag, a number, a hash, or an object with one of these (EIP-1898).
pub(crate) fn block_id(value: &Value) -> Option<BlockId> {
    if let Some(object) = value.as_object() {
        return match (object.get("blockHash"), object.get("blockNumber")) {
            (Some(hash), None) => Some(BlockId::Hash(hash.as_str()?.parse().ok()?)),
            (None, Some(number)) => block_id(number),
            _ => None,
        };
    }
    match value.as_str() {
        Some("latest" | "") => Some(BlockId::Latest),
        Some("pending") => Some(BlockId::Pending),
        Some("earliest") => Some(BlockId::Earliest),
        Some("safe") => Some(BlockId::Safe),
        Some("finalized") => Some(BlockId::Finalized),
        Some(hash) if hash.len() == 66 => hash.parse().ok().map(BlockId::Hash),
        _ => number(value).map(BlockId::Number),
    }
}

/// A call or a transaction, as callers describe it.
#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CallParams {
    pub(crate) from: Option<Address>,
    pub(crate) to: Option<Address>,
    pub(crate) value: Option<U256>,
    pub(crate) data: Option<Bytes>,
    pub(crate) input: Option<Bytes>,
    pub(crate) gas: Option<U256>,
    pub(crate) gas_price: Option<U256>,
    pub(crate) max_fee_per_gas: Option<U256>,
    pub(crate) max_priority_fee_per_gas: Option<U256>,
    pub(crate) nonce: Option<U256>,
    pub(crate) chain_id: Option<U256>,
    pub(crate) access_list: Option<Vec<AccessParams>>,
    pub(crate) blob_versioned_hashes: Option<Vec<B256>>,
    pub(crate) authorization_list: Option<Vec<Value>>,
}

/// One account of an access list.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AccessParams {
    pub(crate) address: Address,
    #[serde(default)]
    pub(crate) storage_keys: Vec<B256>,
}
