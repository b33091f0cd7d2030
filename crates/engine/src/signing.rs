//! Which signers give no signatures, and why.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stile_chain::SignError;
use stile_domain::Address;

/// What signers last said, where it was no signature.
#[derive(Debug, Default)]
pub(crate) struct Signing {
    troubles: Mutex<HashMap<Address, String>>,
}

impl Signing {
    fn troubles(&self) -> MutexGuard<'_, HashMap<Address, String>> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A signer gave a signature, or did not.
    pub(crate) fn note(&self, signer: Address, failed: Option<&SignError>) {
        match failed {
            Some(error) => {
                self.troubles().insert(signer, error.to_string());
            }
            None => {
                self.troubles().remove(&signer);
            }
        }
    }

    /// Why a signer last gave no signature, unless it has given one since.
    pub(crate) fn trouble(&self, signer: Address) -> Option<String> {
        self.troubles().get(&signer).cloned()
    }
}
