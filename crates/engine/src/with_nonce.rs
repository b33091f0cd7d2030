//! What a handler's result says about its nonce.

use std::fmt;

use stile_domain::{B256, Hold};

use crate::error::NonceError;

/// A handler's good news: the transaction is on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent<T> {
    /// Its hash.
    pub tx_hash: B256,
    /// Whatever the handler wants to hand back.
    pub value: T,
}

impl Sent<()> {
    /// Sent, and nothing to add.
    pub fn new(tx_hash: B256) -> Self {
        Self { tx_hash, value: () }
    }
}

/// A handler's bad news. The difference decides whether the nonce may be given to somebody else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandlerError<E> {
    /// Certainly nothing was sent, and nothing will be: the nonce goes back.
    NotSent(E),
    /// Something may have been sent (a time-out, a lost connection): the nonce stays held.
    MaybeSent(E),
}

impl<E> From<E> for HandlerError<E> {
    /// Any other error proves nothing, so `?` in a handler keeps the nonce held.
    fn from(error: E) -> Self {
        Self::MaybeSent(error)
    }
}

/// Why `with_nonce` did not end with a transaction sent and marked.
#[derive(Debug)]
pub enum WithNonceError<E> {
    /// There was no nonce to be had; the handler did not run.
    Allocate(NonceError),
    /// The handler failed.
    Handler {
        /// What it said.
        error: HandlerError<E>,
        /// The hold, as it was given to the handler.
        hold: Box<Hold>,
    },
    /// The handler did its part and the mark could not be written. Mark the hold again: a repeated
    /// mark does no harm.
    Mark {
        /// Why not.
        error: NonceError,
        /// The hold to be marked.
        hold: Box<Hold>,
        /// The transaction, if one was sent.
        tx_hash: Option<B256>,
    },
}

impl<E: fmt::Display> fmt::Display for WithNonceError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allocate(error) => write!(f, "no nonce: {error}"),
            Self::Handler { error: HandlerError::NotSent(error), hold } => {
                write!(f, "not sent, nonce {} goes back: {error}", hold.nonce)
            }
            Self::Handler { error: HandlerError::MaybeSent(error), hold } => {
                write!(f, "possibly sent, nonce {} stays held: {error}", hold.nonce)
            }
            Self::Mark { error, hold, .. } => {
                write!(f, "nonce {} could not be marked: {error}", hold.nonce)
            }
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for WithNonceError<E> {}
