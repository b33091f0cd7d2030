//! Calls that change nothing.

use alloy::eips::eip2930::{AccessList, AccessListItem};
use alloy_primitives::{Bytes, U64, U256};

use super::super::error::RpcError;
use super::super::params::{CallParams, Params};
use super::super::view::View;
use crate::chain::call::{self, Call};
use crate::node::Node;

/// `eth_call`, on the state after a block. The pending block is the latest one.
pub(crate) fn call(node: &Node, params: &mut Params) -> Result<Bytes, RpcError> {
    let (request, block): (CallParams, _) = (params.required(0)?, params.block(1)?);
    no_overrides(params)?;
    let request = request.into_call()?;
    let view = View::of(node);
    let height = view.state_at(block)?;
    Ok(call::call(&view, height, &request)?)
}

/// `eth_estimateGas`: the least gas limit with which it succeeds.
pub(crate) fn estimate(node: &Node, params: &mut Params) -> Result<U64, RpcError> {
    let (request, block): (CallParams, _) = (params.required(0)?, params.block(1)?);
    no_overrides(params)?;
    let request = request.into_call()?;
    let view = View::of(node);
    let height = view.state_at(block)?;
    Ok(U64::from(call::estimate(&view, height, &request)?))
}

fn no_overrides(params: &mut Params) -> Result<(), RpcError> {
    match [params.value(2), params.value(3)].iter().all(serde_json::Value::is_null) {
        true => Ok(()),
        false => Err(RpcError::params("this chain knows no state or block overrides")),
    }
}

impl CallParams {
    /// The call that is described; errors for what this chain does not have.
    pub(crate) fn into_call(self) -> Result<Call, RpcError> {
        if self.blob_versioned_hashes.is_some_and(|blobs| !blobs.is_empty()) {
            return Err(RpcError::refused(
                "transaction type not supported: this chain has no blobs",
            ));
        }
        if self.authorization_list.is_some_and(|list| !list.is_empty()) {
            let reason = "transaction type not supported: this chain has no authorizations";
            return Err(RpcError::refused(reason));
        }
        if self.gas_price.is_some()
            && (self.max_fee_per_gas.is_some() || self.max_priority_fee_per_gas.is_some())
        {
            let reason = "both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified";
            return Err(RpcError::params(reason));
        }
        let wei = |name: &str, value: Option<U256>| match value.map(u128::try_from) {
            None => Ok(None),
            Some(Ok(wei)) => Ok(Some(wei)),
            Some(Err(_)) => Err(RpcError::params(format!("{name} is too large"))),
        };
        let items = self
            .access_list
            .unwrap_or_default()
            .into_iter()
            .map(|item| AccessListItem { address: item.address, storage_keys: item.storage_keys });
        let tip = wei("maxPriorityFeePerGas", self.max_priority_fee_per_gas)?;
        let fee = wei("maxFeePerGas", self.max_fee_per_gas.or(self.gas_price))?;
        Ok(Call {
            from: self.from.unwrap_or_default(),
            to: self.to,
            value: self.value.unwrap_or_default(),
            data: self.input.or(self.data).unwrap_or_default(),
            gas: self.gas.map(|gas| u64::try_from(gas).unwrap_or(u64::MAX)),
            // A tip alone is not held against a fee that nobody named.
            tip: tip.filter(|_| fee.is_some()).or(self.max_fee_per_gas.map(|_| 0)),
            fee,
            access_list: AccessList(items.collect()),
        })
    }
}
