//! Tasks that a process cannot do without.
//!
//! A task that panics ends alone, and leaves half of a node that looks healthy. So each one has a name
//! and is spawned by [`Tasks`]. The first panic is the [`Fall`] of all: what belongs together stops, and
//! the process is told to leave. What it held is taken over by others, or by its next start.
//!
//! | file | what is in it |
//! |---|---|
//! | `fall` | the first panic, and what follows from it |
//! | `tasks` | spawning, and waiting for the end |
//! | `told` | panics that tests ask for |

mod fall;
mod tasks;
mod told;

pub use fall::{Fall, Fallen};
pub use tasks::Tasks;
