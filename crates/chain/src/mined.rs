//! A mined transaction, with the bytes that were signed.
//!
//! An endpoint tells the parts of a transaction; the signed bytes are made from them again. They
//! hash to the transaction's own hash or they are not what was signed, and the signature says who
//! signed. So an endpoint can lie about what is on chain, and not about what an account signed.

use alloy::consensus::transaction::SignerRecoverable;
use alloy::consensus::{
    SignableTransaction, Transaction, TxEip1559, TxEip2930, TxEnvelope, TxLegacy,
};
use alloy::eips::eip2718::Encodable2718;
use alloy::eips::eip2930::{AccessList, AccessListItem};
use alloy::primitives::{Address, B256, Bytes, Signature, TxKind, U64, U256, keccak256};
use serde::Deserialize;
use serde_json::value::RawValue;
use stile_domain::{ChainId, Nonce};

use crate::UnsignedTx;
use crate::rpc::{Answer, Bad, CallError, read_checked};

/// A transaction in a block, as an endpoint tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MinedTx {
    /// Its hash.
    pub hash: B256,
    /// Who signed it.
    pub from: Address,
    /// Its nonce.
    pub nonce: Nonce,
    /// The block it is in.
    pub block_number: u64,
    /// The signed bytes, and what was signed: checked. `None` for kinds of transactions that Stile
    /// does not sign.
    pub signed: Option<(Bytes, UnsignedTx)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    hash: B256,
    from: Address,
    nonce: U64,
    #[serde(default)]
    block_number: Option<U64>,
    #[serde(default)]
    r#type: Option<U64>,
    #[serde(default)]
    chain_id: Option<U64>,
    gas: U64,
    #[serde(default)]
    gas_price: Option<U256>,
    #[serde(default)]
    max_fee_per_gas: Option<U256>,
    #[serde(default)]
    max_priority_fee_per_gas: Option<U256>,
    #[serde(default)]
    to: Option<Address>,
    value: U256,
    input: Bytes,
    #[serde(default)]
    access_list: Option<Vec<Access>>,
    #[serde(default)]
    v: Option<U256>,
    #[serde(default)]
    y_parity: Option<U64>,
    #[serde(default)]
    r: Option<U256>,
    #[serde(default)]
    s: Option<U256>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Access {
    address: Address,
    storage_keys: Vec<B256>,
}

const ANOTHER: Bad = Bad { field: "hash", words: "another transaction than was asked for" };

/// It cannot be a field's fault alone: what is missing or changed makes it another transaction.
fn forged(field: &'static str) -> Bad {
    Bad { field, words: "a transaction that was not signed like this" }
}

/// Reads a transaction that is in a block. `None` if there is none, or it is in no block.
pub(crate) fn read_mined(answer: Answer, hash: B256) -> Result<Option<MinedTx>, CallError> {
    Ok(read_checked(answer, |told| mined(told, hash))?.flatten())
}

fn mined(told: Told, hash: B256) -> Result<Option<MinedTx>, Bad> {
    if told.hash != hash {
        return Err(ANOTHER);
    }
    let Some(block_number) = told.block_number else { return Ok(None) };
    let (from, nonce) = (told.from, told.nonce.to());
    let signed = match told.envelope()? {
        Some(envelope) => {
            let raw = Bytes::from(envelope.encoded_2718());
            let signer = envelope.recover_signer().map_err(|_| forged("r"))?;
            if keccak256(&raw) != hash {
                return Err(forged("hash"));
            }
            if signer != from {
                return Err(forged("from"));
            }
            UnsignedTx::of(&raw).map(|unsigned| (raw, unsigned))
        }
        None => None,
    };
    Ok(Some(MinedTx { hash, from, nonce, block_number: block_number.to(), signed }))
}

/// The nonce of a transaction that this account has signed for this chain, in a block or not. `None` if
/// that is not shown.
pub(crate) fn read_signed(told: &RawValue, account: Address, chain: ChainId) -> Option<Nonce> {
    let told: Told = serde_json::from_str(told.get()).ok()?;
    let (hash, nonce) = (told.hash, told.nonce.to());
    let envelope = told.envelope().ok()??;
    let is_signed = envelope.recover_signer().is_ok_and(|signer| signer == account)
        && keccak256(envelope.encoded_2718()) == hash
        // What was signed for all chains, or for another one, says nothing about this one.
        && envelope.chain_id() == Some(chain.get());
    is_signed.then_some(nonce)
}

impl Told {
    /// What was signed, and the signature; `None` for a kind that is not known here.
    fn envelope(self) -> Result<Option<TxEnvelope>, Bad> {
        let kind: u64 = self.r#type.map_or(0, |kind| kind.to());
        if kind > 2 {
            // Some of them have no signature at all.
            return Ok(None);
        }
        let v: u64 = self.v.map_or(Ok(0), |v| v.try_into()).map_err(|_| forged("v"))?;
        let (r, s) = self.r.zip(self.s).ok_or(forged("r"))?;
        let (nonce, gas_limit) = (self.nonce.to(), self.gas.to());
        let to = self.to.map_or(TxKind::Create, TxKind::Call);
        let (value, input) = (self.value, self.input);
        let wei = |amount: Option<U256>, field| -> Result<u128, Bad> {
            amount.ok_or(forged(field))?.try_into().map_err(|_| forged(field))
        };
        let odd = self.y_parity.map_or(v, |parity| parity.to()) == 1;
        let signature = |odd| Signature::new(r, s, odd);
        let access = self
            .access_list
            .unwrap_or_default()
            .into_iter()
            .map(|item| AccessListItem { address: item.address, storage_keys: item.storage_keys });
        let access_list = AccessList(access.collect());
        let chain_id = || self.chain_id.map(|chain| chain.to::<u64>()).ok_or(forged("chainId"));
        Ok(Some(match kind {
            0 => {
                // EIP-155 has the chain in the signature.
                let (chain_id, odd) = match v {
                    27 | 28 => (None, v == 28),
                    35.. => (Some((v - 35) / 2), (v - 35) % 2 == 1),
                    _ => return Err(forged("v")),
                };
                let gas_price = wei(self.gas_price, "gasPrice")?;
                let tx = TxLegacy { chain_id, nonce, gas_price, gas_limit, to, value, input };
                tx.into_signed(signature(odd)).into()
            }
            1 => {
                let (chain_id, gas_price) = (chain_id()?, wei(self.gas_price, "gasPrice")?);
                let tx = TxEip2930 {
                    chain_id,
                    nonce,
                    gas_price,
                    gas_limit,
                    to,
                    value,
                    access_list,
                    input,
                };
                tx.into_signed(signature(odd)).into()
            }
            2 => {
                let tx = TxEip1559 {
                    chain_id: chain_id()?,
                    nonce,
                    gas_limit,
                    max_fee_per_gas: wei(self.max_fee_per_gas, "maxFeePerGas")?,
                    max_priority_fee_per_gas: wei(
                        self.max_priority_fee_per_gas,
                        "maxPriorityFeePerGas",
                    )?,
                    to,
                    value,
                    access_list,
                    input,
                };
                tx.into_signed(signature(odd)).into()
            }
            _ => return Ok(None),
        }))
    }
}

#[cfg(test)]
mod tests {
    use alloy::signers::SignerSync;
    use alloy::signers::local::PrivateKeySigner;
    use serde_json::{Value, json};
    use stile_domain::{ChainId, Fees};

    use super::*;

    const KEY: &str = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";

    fn answer(told: &Value) -> Answer {
        Ok(serde_json::value::to_raw_value(told).unwrap().into())
    }

    /// A transaction as chain nodes tell of it.
    fn told<T>(tx: T, kind: u64, fees: Value) -> (Value, Bytes)
    where
        T: SignableTransaction<Signature> + alloy::consensus::Transaction,
        TxEnvelope: From<alloy::consensus::Signed<T>>,
    {
        let key: PrivateKeySigner = KEY.parse().unwrap();
        let signature = key.sign_hash_sync(&tx.signature_hash()).unwrap();
        let odd = u64::from(signature.v());
        let v = match (kind, tx.chain_id()) {
            (0, Some(chain)) => 35 + 2 * chain + odd,
            (0, None) => 27 + odd,
            _ => odd,
        };
        let mut told = json!({
            "from": key.address(), "nonce": U64::from(tx.nonce()), "blockNumber": "0x9",
            "blockHash": B256::ZERO, "type": U64::from(kind), "gas": U64::from(tx.gas_limit()),
            "to": tx.to(), "value": tx.value(), "input": tx.input(), "v": U256::from(v),
            "r": signature.r(), "s": signature.s(), "chainId": tx.chain_id().map(U64::from),
        });
        for (name, value) in fees.as_object().unwrap() {
            told[name] = value.clone();
        }
        let envelope = TxEnvelope::from(tx.into_signed(signature));
        told["hash"] = json!(envelope.tx_hash());
        (told, envelope.encoded_2718().into())
    }

    fn market() -> (Value, Bytes) {
        let tx = TxEip1559 {
            chain_id: 31337,
            nonce: 7,
            gas_limit: 50_000,
            max_fee_per_gas: 90,
            max_priority_fee_per_gas: 3,
            to: TxKind::Call(Address::repeat_byte(4)),
            value: U256::from(5),
            access_list: AccessList::default(),
            input: Bytes::from_static(b"hello"),
        };
        let fees = json!({ "maxFeePerGas": "0x5a", "maxPriorityFeePerGas": "0x3", "gasPrice": "0x4",
                           "accessList": [], "yParity": null });
        told(tx, 2, fees)
    }

    fn legacy(chain_id: Option<u64>) -> (Value, Bytes) {
        let tx = TxLegacy {
            chain_id,
            nonce: 7,
            gas_price: 9,
            gas_limit: 50_000,
            to: TxKind::Create,
            value: U256::ZERO,
            input: Bytes::from_static(b"code"),
        };
        told(tx, 0, json!({ "gasPrice": "0x9" }))
    }

    fn hash(told: &Value) -> B256 {
        told["hash"].as_str().unwrap().parse().unwrap()
    }

    fn mined(told: &Value) -> Result<Option<MinedTx>, CallError> {
        read_mined(answer(told), hash(told))
    }

    #[test]
    fn the_signed_bytes_are_made_again() {
        let chain = ChainId::new(31337).unwrap();
        let (told, raw) = market();
        let found = mined(&told).unwrap().unwrap();
        assert_eq!((found.nonce, found.block_number, found.hash), (7, 9, hash(&told)));
        let (bytes, unsigned) = found.signed.unwrap();
        assert_eq!((bytes, unsigned.chain, unsigned.value), (raw, chain, U256::from(5)));
        assert_eq!(
            unsigned.fees,
            Fees::Market { max_fee_per_gas: 90, max_priority_fee_per_gas: 3 }
        );
        let (told, raw) = legacy(Some(31337));
        let (bytes, unsigned) = mined(&told).unwrap().unwrap().signed.unwrap();
        assert_eq!((bytes, unsigned.to), (raw, None));
    }

    #[test]
    fn what_stile_does_not_sign_is_read_and_never_taken_for_its_own() {
        let tx = TxEip2930 { chain_id: 31337, nonce: 7, gas_limit: 50_000, ..Default::default() };
        let (two, _) = told(tx, 1, json!({ "gasPrice": "0x0", "accessList": [], "yParity": null }));
        let (none, _) = legacy(None);
        let mut blob = market().0;
        blob["type"] = json!("0x3");
        let mut unsigned = market().0;
        unsigned["type"] = json!("0x7e");
        for name in ["r", "s", "v", "yParity"] {
            unsigned.as_object_mut().unwrap().remove(name);
        }
        for told in [two, none, blob, unsigned] {
            let found = mined(&told).unwrap().unwrap();
            assert_eq!((found.nonce, found.signed), (7, None), "{told:#}");
        }
    }

    #[test]
    fn nothing_else_is_taken_for_what_was_signed() {
        let (told, _) = market();
        for (name, value) in [
            ("value", json!("0x6")),
            ("to", json!(Address::repeat_byte(5))),
            ("input", json!("0x")),
            ("nonce", json!("0x8")),
            ("gas", json!("0xc351")),
            ("chainId", json!("0x1")),
            ("maxFeePerGas", json!("0x5b")),
            ("from", json!(Address::repeat_byte(6))),
            ("r", json!("0x1")),
            ("v", json!("0x7")),
            ("maxFeePerGas", Value::Null),
        ] {
            let mut forged = told.clone();
            forged[name] = value;
            let odd = forged["v"] == json!("0x7");
            // A parity that is no parity reads as an even one: right for half of all signatures.
            assert!(mined(&forged).is_err() || odd, "{name}");
        }
        let other = read_mined(answer(&told), B256::repeat_byte(1));
        assert!(matches!(other, Err(CallError::Unreadable(_))));
        let mut waiting = told;
        waiting["blockNumber"] = Value::Null;
        assert_eq!(mined(&waiting).unwrap(), None, "in no block");
        assert_eq!(read_mined(answer(&Value::Null), B256::ZERO).unwrap(), None);
    }
}
