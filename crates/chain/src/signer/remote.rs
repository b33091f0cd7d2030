//! A key elsewhere, behind `eth_signTransaction`: Web3Signer, Clef, geth, anvil.

use std::time::Duration;

use alloy::consensus::transaction::SignerRecoverable;
use alloy::consensus::{Transaction, TxEnvelope};
use alloy::eips::eip2718::{Decodable2718, Encodable2718};
use alloy::primitives::{Address, Bytes};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use stile_domain::Fees;

use super::{Form, SignError, SignedTx, TxSigner, UnsignedTx};
use crate::EndpointError;
use crate::blocks::quantity;
use crate::calls::Method;
use crate::rpc::{CallError, Rpc};
use crate::target::Target;

/// Asks somebody else to sign, and checks that what comes back is what was asked for.
#[derive(Debug)]
pub struct RemoteSigner {
    rpc: Rpc,
    address: Address,
}

impl RemoteSigner {
    /// A signer at an HTTP address that holds this account's key. Connects only when first asked.
    pub fn new(url: &str, address: Address, timeout: Duration) -> Result<Self, EndpointError> {
        Ok(Self { rpc: Rpc::new(Target::parse_http(url)?, timeout, None)?, address })
    }

    /// Whatever the signer sends back has to be this transaction, signed by this account.
    fn check(&self, tx: &UnsignedTx, raw: Bytes) -> Result<SignedTx, SignError> {
        let refuse = |why: &str| Err(SignError::Refused(format!("{}: {why}", self.rpc.shown())));
        let mut rest = raw.as_ref();
        let Ok(signed) = TxEnvelope::decode_2718(&mut rest) else {
            return refuse("sent back something that is not a transaction");
        };
        if !rest.is_empty() || signed.encoded_2718() != *raw {
            return refuse("sent back something around a transaction");
        }
        let same = match (&signed, tx.form()) {
            (TxEnvelope::Eip1559(signed), Form::Market(asked)) => *signed.tx() == asked,
            (TxEnvelope::Legacy(signed), Form::Legacy(asked)) => *signed.tx() == asked,
            _ => false,
        };
        if !same {
            return refuse(&format!("signed another transaction: {}", difference(tx, &signed)));
        }
        match signed.recover_signer() {
            Ok(signer) if signer == self.address => Ok(SignedTx { hash: *signed.tx_hash(), raw }),
            Ok(signer) => refuse(&format!("signed for {signer}, not {}", self.address)),
            Err(_) => refuse("sent back a signature that is none"),
        }
    }
}

/// The first thing that is not as it was asked for, for people to read.
fn difference(asked: &UnsignedTx, signed: &TxEnvelope) -> &'static str {
    let (max_fee, tip) = match asked.fees {
        Fees::Market { max_fee_per_gas, max_priority_fee_per_gas } => {
            (max_fee_per_gas, Some(max_priority_fee_per_gas))
        }
        Fees::Legacy { gas_price } => (gas_price, None),
    };
    if signed.chain_id() != Some(asked.chain.get()) {
        "the chain differs"
    } else if signed.nonce() != asked.nonce {
        "the nonce differs"
    } else if signed.to() != asked.to {
        "the receiver differs"
    } else if signed.value() != asked.value {
        "the value differs"
    } else if *signed.input() != asked.data {
        "the data differs"
    } else if signed.gas_limit() != asked.gas_limit {
        "the gas limit differs"
    } else if signed.max_fee_per_gas() != max_fee || signed.max_priority_fee_per_gas() != tip {
        "the fees differ"
    } else {
        "its kind differs"
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Told {
    /// anvil, Web3Signer.
    Raw(Bytes),
    /// geth, Clef.
    Both { raw: Bytes },
}

#[async_trait]
impl TxSigner for RemoteSigner {
    fn address(&self) -> Address {
        self.address
    }

    fn is_local(&self) -> bool {
        false
    }

    async fn sign(&self, tx: &UnsignedTx) -> Result<SignedTx, SignError> {
        let params = json!([request(self.address, tx)]);
        match self.rpc.ask::<Told>(Method::SignTransaction, params).await {
            Ok(Some(Told::Raw(raw) | Told::Both { raw })) => self.check(tx, raw),
            Ok(None) => Err(SignError::Refused(format!("{}: answered null", self.rpc.shown()))),
            Err(error) => {
                let why = format!("{}: {error}", self.rpc.shown());
                Err(if may_pass(&error) {
                    SignError::Unavailable(why)
                } else {
                    SignError::Refused(why)
                })
            }
        }
    }
}

/// Whether asking again may help: not if the signer answered that it will not sign.
fn may_pass(error: &CallError) -> bool {
    match error {
        CallError::Timeout(_)
        | CallError::Crowded(_)
        | CallError::Limited(_)
        | CallError::Resting(_)
        | CallError::Unreachable => true,
        CallError::Http(status) => *status >= 500 || matches!(status, 408 | 425),
        CallError::Said { code, .. } => matches!(code, -32603 | -32005),
        CallError::Garbled(_) | CallError::Unreadable(_) => false,
    }
}

fn request(from: Address, tx: &UnsignedTx) -> Value {
    let mut request = json!({
        "from": from,
        "chainId": quantity(tx.chain.get()),
        "nonce": quantity(tx.nonce),
        "value": tx.value,
        "data": tx.data,
        "gas": quantity(tx.gas_limit),
    });
    if let Some(to) = tx.to {
        request["to"] = json!(to);
    }
    match tx.fees {
        Fees::Market { max_fee_per_gas, max_priority_fee_per_gas } => {
            request["maxFeePerGas"] = json!(format!("{max_fee_per_gas:#x}"));
            request["maxPriorityFeePerGas"] = json!(format!("{max_priority_fee_per_gas:#x}"));
        }
        Fees::Legacy { gas_price } => {
            request["gasPrice"] = json!(format!("{gas_price:#x}"));
        }
    }
    request
}
