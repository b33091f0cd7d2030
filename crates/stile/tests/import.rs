//! Coming from V1, side by side with it, and going back.
//!
//! | file | what is checked |
//! |---|---|
//! | `cutover` | 100 signers with nonces in every state move while V1 writes: each nonce is accounted for, twice is once |
//! | `fence` | what V1 writes while it is stopped is moved or refused, never lost |
//! | `resume` | killed in the middle, it goes on where it was |
//! | `back` | V1 goes on where Stile left off, and when that is refused |
//! | `beside` | which signers are Stile's, at run time |
//! | `names` | V1's other table names, signers that are no addresses, signers that are one |

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[macro_use]
mod common;

#[path = "import/make.rs"]
mod make;
#[path = "import/stage.rs"]
mod stage;
#[path = "import/writer.rs"]
mod writer;

#[path = "import/back.rs"]
mod back;
#[path = "import/beside.rs"]
mod beside;
#[path = "import/cutover.rs"]
mod cutover;
#[path = "import/fence.rs"]
mod fence;
#[path = "import/names.rs"]
mod names;
#[path = "import/resume.rs"]
mod resume;
