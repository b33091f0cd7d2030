//! Sending transactions: signed ones, and from the chain's own accounts.

use alloy::consensus::{SignableTransaction, TxEip1559, TxEip2930, TxEnvelope, TxLegacy};
use alloy::signers::SignerSync;
use alloy_primitives::{B256, Bytes, TxKind, U256};
use serde::Serialize;

use super::super::error::RpcError;
use super::super::json::TxJson;
use super::super::params::{CallParams, Params};
use super::super::view::View;
use super::fee::SUGGESTED_TIP;
use crate::accounts::{self, Account};
use crate::chain::Tx;
use crate::chain::call::{Call, estimate};
use crate::node::Node;

/// `eth_sendRawTransaction`
pub(crate) fn raw(node: &Node, params: &mut Params) -> Result<B256, RpcError> {
    let bytes: Bytes = params.required(0)?;
    // Before anything is locked: this is what costs most.
    let tx = Tx::decode(&bytes)?;
    Ok(node.submit(tx)?)
}

/// `eth_sendTransaction`: fills in what is missing, signs and sends.
pub(crate) fn send(node: &Node, params: &mut Params) -> Result<B256, RpcError> {
    let request: CallParams = params.required(0)?;
    // Two that are sent at once must not get the same nonce.
    let _alone = node.sending();
    let tx = signed(node, request)?;
    Ok(node.submit(tx)?)
}

/// The answer to `eth_signTransaction`.
#[derive(Debug, Serialize)]
pub(crate) struct Signed {
    raw: Bytes,
    tx: TxJson,
}

/// `eth_signTransaction`: the same without sending.
pub(crate) fn sign(node: &Node, params: &mut Params) -> Result<Signed, RpcError> {
    let request: CallParams = params.required(0)?;
    let tx = signed(node, request)?;
    Ok(Signed { raw: tx.bytes().into(), tx: TxJson::pending(&tx) })
}

fn signed(node: &Node, request: CallParams) -> Result<Tx, RpcError> {
    let from = request.from.ok_or_else(|| RpcError::params("from is missing"))?;
    let account = accounts::find(from).ok_or_else(|| RpcError::refused("unknown account"))?;
    let number = |name: &str, value: Option<U256>| match value.map(u64::try_from) {
        None => Ok(None),
        Some(Ok(number)) => Ok(Some(number)),
        Some(Err(_)) => Err(RpcError::params(format!("{name} is too large"))),
    };
    let (nonce, gas) = (number("nonce", request.nonce)?, number("gas", request.gas)?);
    let chain_id = number("chainId", request.chain_id)?;
    let (typed, legacy) = (request.access_list.is_some(), request.gas_price.is_some());
    let tip = number("maxPriorityFeePerGas", request.max_priority_fee_per_gas)?;
    let mut call = request.into_call()?;
    let view = View::of(node);
    let ours = view.rules.chain_id;
    if chain_id.is_some_and(|theirs| theirs != ours) {
        let theirs = chain_id.unwrap_or_default();
        let reason = format!("chainId does not match node's (have={theirs}, want={ours})");
        return Err(RpcError::refused(reason));
    }
    let next = view.account(from).nonce;
    let nonce = nonce.unwrap_or_else(|| node.pool().next_nonce(from, next));
    if !legacy {
        let most = call.fee.unwrap_or(u128::MAX);
        let tip = tip.map_or(u128::from(SUGGESTED_TIP).min(most), u128::from);
        let base_fee = u128::from(view.rules.base_fee_after(view.newest()));
        call.fee = Some(call.fee.unwrap_or(base_fee * 2 + tip));
        call.tip = Some(tip);
    }
    let gas = match gas {
        Some(gas) => gas,
        // What it is paid with does not change what it needs.
        None => estimate(&view, view.head, &Call { fee: None, tip: None, ..call.clone() })?,
    };
    drop(view);
    envelope(&account, call, nonce, gas, ours, typed)
}

fn envelope(
    account: &Account,
    call: Call,
    nonce: u64,
    gas_limit: u64,
    chain_id: u64,
    typed: bool,
) -> Result<Tx, RpcError> {
    let to = call.to.map_or(TxKind::Create, TxKind::Call);
    let (value, input, access_list) = (call.value, call.data, call.access_list);
    let fee = call.fee.unwrap_or_default();
    let envelope: TxEnvelope = match call.tip {
        Some(tip) => seal(
            account,
            TxEip1559 {
                chain_id,
                nonce,
                gas_limit,
                max_fee_per_gas: fee,
                max_priority_fee_per_gas: tip,
                to,
                value,
                access_list,
                input,
            },
        )?,
        None if typed => seal(
            account,
            TxEip2930 { chain_id, nonce, gas_price: fee, gas_limit, to, value, access_list, input },
        )?,
        None => seal(
            account,
            TxLegacy {
                chain_id: Some(chain_id),
                nonce,
                gas_price: fee,
                gas_limit,
                to,
                value,
                input,
            },
        )?,
    };
    Ok(Tx::new(envelope, account.address))
}

fn seal<T>(account: &Account, tx: T) -> Result<TxEnvelope, RpcError>
where
    T: SignableTransaction<alloy_primitives::Signature>,
    TxEnvelope: From<alloy::consensus::Signed<T>>,
{
    let signer = account.signer().ok_or_else(|| RpcError::internal("a key that is none"))?;
    let signature = signer.sign_hash_sync(&tx.signature_hash()).map_err(RpcError::internal)?;
    Ok(tx.into_signed(signature).into())
}
