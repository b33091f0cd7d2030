//! Working together with the other nodes.
//!
//! None of it decides who may write: that is the lane's row. It decides where lanes had best be, so
//! that callers find them and nodes share the work.
//!
//! | file | what is in it |
//! |---|---|
//! | [`membership`] | where the nodes are learned from |
//! | [`in_registry`], `trust` | the same from the registry, and whose word is taken |
//! | [`registered`] | a Stile node as the registry knows it |
//! | `members` | the nodes as they are known, and which of them a lane had best be on |
//! | `beat` | telling of oneself, and learning of the others |
//! | `hand_over` | lanes on their way to where they had best be |
//! | `news` | what nodes tell each other |
//! | `shares` | calls to chain endpoints, shared out between the nodes |
//! | [`router`] | where a lane is, for callers |

mod beat;
mod hand_over;
pub mod in_registry;
mod members;
pub mod membership;
mod news;
pub mod registered;
pub mod router;
pub mod shares;
mod trust;

pub(crate) use beat::{join, leave, run};
pub(crate) use hand_over::hand_over_all;
pub(crate) use members::Members;
pub(crate) use news::{Bell, hear, ring};
pub(crate) use trust::Source;
