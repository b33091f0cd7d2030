//! Fields that an answer is read without.

use serde::Deserialize;
use serde::de::IgnoredAny;

/// Something that some chain writes in its own way: that must not make all the rest
/// unreadable.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Maybe<T> {
    Known(T),
    Odd(IgnoredAny),
}

impl<T> Maybe<T> {
    /// Whether it says nothing that is understood.
    pub(crate) fn is_odd(&self) -> bool {
        matches!(self, Self::Odd(_))
    }

    /// What it says, if that is understood.
    pub(crate) fn known(self) -> Option<T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Odd(_) => None,
        }
    }
}

impl<T> Default for Maybe<T> {
    fn default() -> Self {
        Self::Odd(IgnoredAny)
    }
}
