//! What the tests of managed transactions share.
//!
//! | file | what is in it |
//! |---|---|
//! | `backend` | the store a node runs on, and a look at it from outside |
//! | `calls` | a node's calls for transactions |
//! | `evidence` | what the chain itself shows |
//! | `load` | callers who insist |
//! | `random` | chance that can be repeated |

mod backend;
mod calls;
mod evidence;
mod load;
mod random;

pub(crate) use backend::Backend;
pub(crate) use calls::{id, text, transfer};
pub(crate) use evidence::{assert_all_mined_once, assert_mined_once};
pub(crate) use load::{Load, SIGNERS};
pub(crate) use random::Random;

/// A test on each store for every function named, which takes a [`Backend`].
macro_rules! on_both_stores {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $test() {
                super::$test($crate::support::Backend::sqlite()).await;
            })+
        }

        mod postgres {
            $(#[tokio::test]
            async fn $test() {
                super::$test($crate::support::Backend::postgres().await).await;
            })+
        }
    };
}
