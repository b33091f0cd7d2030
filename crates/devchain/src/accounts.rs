//! The accounts that every development chain knows.
//!
//! They are the first ten of the mnemonic `test test test test test test test test test test test
//! junk`. Their keys are known to everybody: never to be used on a chain where anything is worth
//! anything.

use alloy::signers::local::PrivateKeySigner;
use alloy_primitives::{Address, B256, address, b256};

/// The words that the accounts are derived from, by the path `m/44'/60'/0'/0/n`.
pub const MNEMONIC: &str = "test test test test test test test test test test test junk";

/// An account with a key that everybody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    /// Its address.
    pub address: Address,
    /// Its private key.
    pub key: B256,
}

/// The account with this address, if it is one of the ten.
pub fn find(address: Address) -> Option<Account> {
    ALL.iter().copied().find(|account| account.address == address)
}

impl Account {
    /// Signs for this account.
    pub(crate) fn signer(&self) -> Option<PrivateKeySigner> {
        PrivateKeySigner::from_bytes(&self.key).ok()
    }
}

/// The ten accounts, in the order of their derivation.
pub const ALL: [Account; 10] = [
    Account {
        address: address!("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"),
        key: b256!("0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"),
    },
    Account {
        address: address!("0x70997970C51812dc3A010C7d01b50e0d17dc79C8"),
        key: b256!("0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"),
    },
    Account {
        address: address!("0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"),
        key: b256!("0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a"),
    },
    Account {
        address: address!("0x90F79bf6EB2c4f870365E785982E1f101E93b906"),
        key: b256!("0x7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6"),
    },
    Account {
        address: address!("0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65"),
        key: b256!("0x47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a"),
    },
    Account {
        address: address!("0x9965507D1a55bcC2695C58ba16FB37d819B0A4dc"),
        key: b256!("0x8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba"),
    },
    Account {
        address: address!("0x976EA74026E726554dB657fA54763abd0C3a0aa9"),
        key: b256!("0x92db14e403b83dfe3df233f83dfa3a0d7096f21ca9b0d6d6b8d88b2b4ec1564e"),
    },
    Account {
        address: address!("0x14dC79964da2C08b23698B3D3cc7Ca32193d9955"),
        key: b256!("0x4bbbf85ce3377467afe5d46f804f221813b2bb87f24d81f60f1fcdbf7cbf4356"),
    },
    Account {
        address: address!("0x23618e81E3f5cdF7f54C3d65f7FBc0aBf5B21E8f"),
        key: b256!("0xdbda1821b80551c9d65939329250298aa3472ba22feea921c0cf5d620ea67b97"),
    },
    Account {
        address: address!("0xa0Ee7A142d267C1f36714E4a8F75612F20a79720"),
        key: b256!("0x2a871d0798f97d79848a013d4936a73bf4cc922c825d33c1cf7073dff6d409c6"),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_the_key_of_its_address() {
        for account in ALL {
            assert_eq!(account.signer().unwrap().address(), account.address);
            assert_eq!(find(account.address), Some(account));
        }
        assert_eq!(find(Address::ZERO), None);
    }
}
