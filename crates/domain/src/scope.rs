//! What an API key may do, and for which signers.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use alloy_primitives::Address;

use crate::UnknownName;

/// What callers may be allowed to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Look.
    Read,
    /// Hand over transactions, take nonces and say what became of them.
    Send,
    /// Pause and resume signers.
    Operate,
    /// Make and revoke keys, and everything else.
    Admin,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Send, Self::Operate, Self::Admin];

    /// The name used in the database, in JSON and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Send => "send",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Operation {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|operation| operation.name() == text).ok_or(UnknownName)
    }
}

/// Whose transactions and nonces a key is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignerScope {
    /// Every signer, also those that are added later.
    All,
    /// These and no others.
    Only(BTreeSet<Address>),
}

impl SignerScope {
    /// Whether a signer is one of them.
    pub fn covers(&self, signer: Address) -> bool {
        match self {
            Self::All => true,
            Self::Only(signers) => signers.contains(&signer),
        }
    }
}

/// What a key may do, and for which signers. It never changes: a key that is to do something else
/// is another key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    operations: BTreeSet<Operation>,
    signers: SignerScope,
}

/// A scope that makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// It allows nothing.
    #[error("must name at least one operation: read, send, operate, admin")]
    NoOperation,
    /// It is for nobody.
    #[error("must name at least one signer, or all")]
    NoSigner,
    /// Who can make keys can make one for any signer, so a limit would be none.
    #[error("must be all for a key that may do admin: whoever makes keys can make one for anybody")]
    AdminOfSome,
}

impl Scope {
    /// A scope that makes sense.
    pub fn new(
        operations: impl IntoIterator<Item = Operation>,
        signers: SignerScope,
    ) -> Result<Self, ScopeError> {
        let operations: BTreeSet<Operation> = operations.into_iter().collect();
        if operations.is_empty() {
            return Err(ScopeError::NoOperation);
        }
        match &signers {
            SignerScope::Only(some) if some.is_empty() => Err(ScopeError::NoSigner),
            SignerScope::Only(_) if operations.contains(&Operation::Admin) => {
                Err(ScopeError::AdminOfSome)
            }
            _ => Ok(Self { operations, signers }),
        }
    }

    /// The rule: whether this may be done for this signer.
    pub fn allows(&self, operation: Operation, signer: Address) -> bool {
        self.permits(operation) && self.signers.covers(signer)
    }

    /// Whether this may be done, for some signer. `admin` implies every operation.
    pub fn permits(&self, operation: Operation) -> bool {
        self.operations.contains(&operation) || self.operations.contains(&Operation::Admin)
    }

    /// The operations as they were given, in their own order.
    pub fn operations(&self) -> impl Iterator<Item = Operation> + '_ {
        self.operations.iter().copied()
    }

    /// The signers.
    pub fn signers(&self) -> &SignerScope {
        &self.signers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Operation::{Admin, Operate, Read, Send};

    fn signer(byte: u8) -> Address {
        Address::repeat_byte(byte)
    }

    fn only(bytes: &[u8]) -> SignerScope {
        SignerScope::Only(bytes.iter().map(|byte| signer(*byte)).collect())
    }

    /// Every set of operations and both kinds of signers, against the rule in words.
    #[test]
    fn the_whole_table() {
        for bits in 1..16_u8 {
            let place = |operation: &Operation| 1 << (*operation as u8);
            let given: Vec<_> =
                Operation::ALL.into_iter().filter(|it| bits & place(it) != 0).collect();
            for signers in [SignerScope::All, only(&[1, 2])] {
                let scope = Scope::new(given.clone(), signers.clone());
                if given.contains(&Admin) && signers != SignerScope::All {
                    assert_eq!(scope, Err(ScopeError::AdminOfSome));
                    continue;
                }
                let scope = scope.unwrap();
                assert_eq!(scope.operations().collect::<Vec<_>>(), given);
                for operation in Operation::ALL {
                    let may = given.contains(&operation) || given.contains(&Admin);
                    assert_eq!(scope.permits(operation), may, "{given:?} {operation}");
                    for (byte, inside) in [(1, true), (2, true), (3, signers == SignerScope::All)] {
                        assert_eq!(scope.allows(operation, signer(byte)), may && inside);
                    }
                }
            }
        }
    }

    #[test]
    fn a_scope_of_nothing_is_none() {
        assert_eq!(Scope::new([], SignerScope::All), Err(ScopeError::NoOperation));
        assert_eq!(Scope::new([Read], only(&[])), Err(ScopeError::NoSigner));
        assert!(Scope::new([Read, Read, Send, Operate], only(&[1])).is_ok());
    }

    #[test]
    fn operations_have_names() {
        for operation in Operation::ALL {
            assert_eq!(operation.name().parse(), Ok(operation));
        }
        for text in ["", "Read", "write", "all"] {
            assert_eq!(text.parse::<Operation>(), Err(UnknownName), "{text}");
        }
    }
}
