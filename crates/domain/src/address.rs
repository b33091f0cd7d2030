//! Addresses as text.

use alloy_primitives::Address;

/// Why a text is not an address. The message is meant for the person who typed it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Not `0x` and 40 hexadecimal digits.
    #[error("must be 0x followed by 40 hexadecimal digits")]
    Malformed,
    /// Mixed upper and lower case, but not the mix that EIP-55 prescribes: most likely a typing
    /// error in one of the digits.
    #[error(
        "has a wrong EIP-55 checksum: a digit may be mistyped (write it in lower case to skip this check)"
    )]
    Checksum,
}

/// Reads an address. All-lower and all-upper case are taken as they are; mixed case must be the
/// EIP-55 checksum, because that is what mixed case is for.
///
/// The result is twenty bytes, so `0xAbC…` and `0xabc…` are one lane.
pub fn parse_address(text: &str) -> Result<Address, AddressError> {
    let digits = text.strip_prefix("0x").ok_or(AddressError::Malformed)?;
    if digits.len() != 40 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(AddressError::Malformed);
    }
    let one_case = !digits.bytes().any(|b| b.is_ascii_lowercase())
        || !digits.bytes().any(|b| b.is_ascii_uppercase());
    if one_case {
        text.parse().map_err(|_| AddressError::Malformed)
    } else {
        Address::parse_checksummed(text, None).map_err(|_| AddressError::Checksum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHECKSUMMED: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";

    #[test]
    fn three_spellings_are_one_address() {
        let lower = CHECKSUMMED.to_lowercase();
        let upper = format!("0x{}", CHECKSUMMED[2..].to_uppercase());
        let parsed = parse_address(CHECKSUMMED);
        assert!(parsed.is_ok());
        assert_eq!(parsed, parse_address(&lower));
        assert_eq!(parsed, parse_address(&upper));
    }

    #[test]
    fn a_wrong_checksum_is_told_apart_from_nonsense() {
        let typo = CHECKSUMMED.replace("f39F", "f39f");
        assert_eq!(parse_address(&typo), Err(AddressError::Checksum));
        for nonsense in ["", "0x", "f39Fd6e51aad88F6F4ce6aB8827279cffFb92266", "0x12", "0xzz"] {
            assert_eq!(parse_address(nonsense), Err(AddressError::Malformed), "{nonsense}");
        }
    }
}
