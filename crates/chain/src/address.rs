//! The address behind a private key.

use stile_domain::Address;

use crate::{LocalSigner, TxSigner};

/// A text that is not a private key. It says nothing of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not a private key: 32 bytes in hexadecimal are expected")]
pub struct KeyError;

/// The address that a private key, given in hexadecimal, signs for. The key is not kept.
pub fn address_of_key(key: &str) -> Result<Address, KeyError> {
    Ok(LocalSigner::from_key(key)?.address())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_key_has_its_known_address() {
        let key = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
        let known = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266".parse::<Address>().unwrap();
        assert_eq!(address_of_key(key), Ok(known));
        assert_eq!(address_of_key("canary"), Err(KeyError));
        assert!(!KeyError.to_string().contains("canary"));
    }
}
