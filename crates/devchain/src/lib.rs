//! A development chain: it executes real EVM code, answers JSON-RPC over HTTP, and fails on demand.
//!
//! ```text
//!  client ── POST ──→ rpc ──→ signature ──→ pool ─────→ block ─────→ file ──────→ ledger
//!                      │      checked,      by sender   executed,    written,     visible to
//!                      │      no lock held  and nonce   best tips    before       everybody
//!                      │                                first        anybody
//!                      └── faults: late, behind, untrue              sees it
//! ```
//!
//! It takes the place of a chain node on a developer's machine and in tests. It is a chain of one
//! node that nobody else trusts, and therefore no evidence that anything works on a real one.
//!
//! | module | what it is for | what it never does |
//! |---|---|---|
//! | `chain` | blocks, the state at every height, the EVM | wait, lock, read a clock |
//! | `pool` | who waits, who replaces whom, who goes first | know of blocks |
//! | `file` | what is kept over restarts | hold a chain up that cannot be written |
//! | `node` | what is shared and what locks what; blocks and reorganisations | know of JSON |
//! | `rpc` | JSON-RPC over HTTP | change the chain by itself |
//!
//! What is like the real thing: execution by revm with the rules of the Prague fork; intrinsic and
//! floor gas, refunds, EIP-1559 base fees; transactions root, receipts root, blooms and header
//! hashes; the pool's rules and the words of its refusals, which are those of geth.
//!
//! What is not: the **state root** of a header is a running hash of the changes, not the root of a
//! trie: the same history has the same one, nobody verifies it, and a trie costs. There are no
//! blobs (EIP-4844), no authorizations (EIP-7702), no withdrawals, no requests and no system
//! contracts. `safe` and `finalized` are a number of blocks behind the head, and a reorganisation
//! may go deeper. The `pending` block is the latest one; only `eth_getTransactionCount` counts what
//! waits. The pool is gone after a restart.
//!
//! With a [given clock](Clock::Given) the same options and the same calls in the same order make
//! the same blocks, down to the hashes. A reorganisation counts up the number that goes into the
//! randomness (`prevRandao`) of later blocks, so a block that replaces another is never the same.
//!
//! # Faults on demand
//!
//! | method | what it does |
//! |---|---|
//! | `dev_mine(n)` | makes `n` blocks; without `n`, one |
//! | `dev_reorg({depth, transactions, length, later})` | replaces the newest blocks |
//! | `dev_dropTransactions([hash…] \| null)` | out of the pool: these, or all |
//! | `dev_delay({methods \| null, milliseconds})` | answers come late |
//! | `dev_oldHead(depth \| null)` | answers as if it were so many blocks behind |
//! | `dev_lie({method, result \| error, times \| null})` | answers that are made up |
//! | `dev_setBalance(address, wei)` | from the newest block on |
//! | `dev_setNonce(address, nonce)` | as if the account had sent so many |
//! | `dev_setBaseFee(wei \| null)` | of all blocks from now on |
//! | `dev_setBlocks("instant" \| "manual" \| milliseconds)` | when blocks are made |
//! | `dev_honest()` | no more delays, lies and old heads |
//!
//! `docs/devchain.md` has them in full. Whoever reaches the chain can call them, so it listens on
//! loopback addresses only.

#![warn(missing_docs)]

pub mod accounts;
pub mod counter;

mod chain;
mod devchain;
mod error;
mod file;
mod node;
mod options;
mod pool;
mod rpc;

pub use devchain::DevChain;
pub use error::DevChainError;
pub use options::{Blocks, Clock, Options};
