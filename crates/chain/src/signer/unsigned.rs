//! What is signed, and what was.

use alloy::consensus::{Transaction, TxEip1559, TxEnvelope, TxLegacy};
use alloy::eips::eip2718::Decodable2718;
use alloy::primitives::{Address, Bytes, TxKind, U256};
use stile_domain::{ChainId, Fees, Nonce};

/// What a transfer without data costs.
const TRANSFER_GAS: u64 = 21_000;

/// A transaction to be signed. Its fees decide its kind: EIP-1559 or legacy with EIP-155.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsignedTx {
    /// The chain it is for; no other takes it.
    pub chain: ChainId,
    /// The account's nonce.
    pub nonce: Nonce,
    /// Whom it goes to; `None` deploys a contract.
    pub to: Option<Address>,
    /// What it carries, in wei.
    pub value: U256,
    /// Call data, or a contract's code.
    pub data: Bytes,
    /// The most gas it may use.
    pub gas_limit: u64,
    /// What it offers to pay.
    pub fees: Fees,
}

/// A transaction in the form that is hashed and encoded.
pub(crate) enum Form {
    Market(TxEip1559),
    Legacy(TxLegacy),
}

impl UnsignedTx {
    /// What was signed, from the bytes that came of it. `None` for what is not a transaction, and
    /// for kinds that Stile does not sign: with an access list, or without a chain.
    pub fn of(raw: &Bytes) -> Option<Self> {
        let mut rest = raw.as_ref();
        let signed = TxEnvelope::decode_2718(&mut rest).ok().filter(|_| rest.is_empty())?;
        let fees = match &signed {
            TxEnvelope::Eip1559(signed) if signed.tx().access_list.is_empty() => Fees::Market {
                max_fee_per_gas: signed.tx().max_fee_per_gas,
                max_priority_fee_per_gas: signed.tx().max_priority_fee_per_gas,
            },
            TxEnvelope::Legacy(signed) => Fees::Legacy { gas_price: signed.tx().gas_price },
            _ => return None,
        };
        Some(Self {
            chain: ChainId::new(signed.chain_id()?).ok()?,
            nonce: signed.nonce(),
            to: signed.to(),
            value: signed.value(),
            data: signed.input().clone(),
            gas_limit: signed.gas_limit(),
            fees,
        })
    }

    /// A transaction that does nothing but use up the same nonce of the same chain: from the signer
    /// to itself, without value or data.
    pub fn nothing(&self, signer: Address, fees: Fees) -> Self {
        Self {
            chain: self.chain,
            nonce: self.nonce,
            to: Some(signer),
            value: U256::ZERO,
            data: Bytes::new(),
            gas_limit: TRANSFER_GAS,
            fees,
        }
    }

    pub(crate) fn form(&self) -> Form {
        let (chain_id, nonce, gas_limit) = (self.chain.get(), self.nonce, self.gas_limit);
        let to = self.to.map_or(TxKind::Create, TxKind::Call);
        let (value, input) = (self.value, self.data.clone());
        match self.fees {
            Fees::Market { max_fee_per_gas, max_priority_fee_per_gas } => Form::Market(TxEip1559 {
                chain_id,
                nonce,
                gas_limit,
                max_fee_per_gas,
                max_priority_fee_per_gas,
                to,
                value,
                access_list: Default::default(),
                input,
            }),
            Fees::Legacy { gas_price } => Form::Legacy(TxLegacy {
                chain_id: Some(chain_id),
                nonce,
                gas_price,
                gas_limit,
                to,
                value,
                input,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloy::eips::eip2930::{AccessList, AccessListItem};
    use proptest::prelude::*;

    use super::*;
    use crate::LocalSigner;

    const KEY: &str = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";

    fn signer() -> LocalSigner {
        LocalSigner::from_key(KEY).unwrap()
    }

    fn fees() -> impl Strategy<Value = Fees> {
        prop_oneof![
            any::<(u128, u128)>().prop_map(|(max_fee_per_gas, max_priority_fee_per_gas)| {
                Fees::Market { max_fee_per_gas, max_priority_fee_per_gas }
            }),
            any::<u128>().prop_map(|gas_price| Fees::Legacy { gas_price }),
        ]
    }

    prop_compose! {
        fn unsigned()(
            // Beyond this the chain does not fit into a legacy signature.
            chain in 1..u64::MAX / 2 - 36,
            nonce: u64,
            to: Option<[u8; 20]>,
            value: [u8; 32],
            data: Vec<u8>,
            gas_limit: u64,
            fees in fees(),
        ) -> UnsignedTx {
            UnsignedTx {
                chain: ChainId::new(chain).unwrap(),
                nonce,
                to: to.map(Address::from),
                value: U256::from_be_bytes(value),
                data: data.into(),
                gas_limit,
                fees,
            }
        }
    }

    proptest! {
        #[test]
        fn what_was_signed_is_read_from_the_bytes(tx in unsigned()) {
            let raw = signer().sign_now(&tx).unwrap().raw;
            prop_assert_eq!(UnsignedTx::of(&raw), Some(tx));
            let mut longer = raw.to_vec();
            longer.push(0);
            prop_assert_eq!(UnsignedTx::of(&longer.into()), None);
            prop_assert_eq!(UnsignedTx::of(&raw.slice(..raw.len() - 1)), None);
        }

        #[test]
        fn rubbish_is_no_transaction(rubbish: Vec<u8>) {
            let _ = UnsignedTx::of(&rubbish.into());
        }

        #[test]
        fn nothing_uses_up_the_nonce_and_no_more(tx in unsigned(), fees in fees()) {
            let signer = Address::repeat_byte(7);
            let nothing = tx.nothing(signer, fees);
            prop_assert_eq!((nothing.chain, nothing.nonce), (tx.chain, tx.nonce));
            prop_assert_eq!((nothing.to, nothing.value), (Some(signer), U256::ZERO));
            prop_assert_eq!((nothing.data.len(), nothing.gas_limit), (0, 21_000));
            prop_assert_eq!(nothing.fees, fees);
        }
    }

    #[test]
    fn kinds_that_are_not_signed_here_are_not_taken_for_others() {
        use alloy::consensus::SignableTransaction;
        use alloy::eips::eip2718::Encodable2718;
        use alloy::primitives::Signature;
        let signature = Signature::test_signature();
        let item = AccessListItem { address: Address::ZERO, storage_keys: Vec::new() };
        let access_list = AccessList(vec![item]);
        let listed = TxEip1559 { chain_id: 1, access_list, ..TxEip1559::default() };
        let listed = listed.into_signed(signature).encoded_2718();
        let unbound = TxLegacy::default().into_signed(signature).encoded_2718();
        for raw in [listed, unbound] {
            assert_eq!(UnsignedTx::of(&raw.into()), None);
        }
    }
}
