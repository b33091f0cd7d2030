//! On which lanes no signatures are had, and why.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stile_chain::SignError;
use stile_domain::Lane;

/// What signers last said, where it was no signature.
#[derive(Debug, Default)]
pub(crate) struct Signing {
    troubles: Mutex<HashMap<Lane, String>>,
}

impl Signing {
    fn troubles(&self) -> MutexGuard<'_, HashMap<Lane, String>> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A signer gave a signature, or did not.
    pub(crate) fn note(&self, lane: Lane, failed: Option<&SignError>) {
        match failed {
            Some(error) => {
                self.troubles().insert(lane, error.to_string());
            }
            None => {
                self.troubles().remove(&lane);
            }
        }
    }

    /// Why a signer last gave no signature, unless it has given one since.
    pub(crate) fn trouble(&self, lane: Lane) -> Option<String> {
        self.troubles().get(&lane).cloned()
    }
}
