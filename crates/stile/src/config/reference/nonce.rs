//! How nonces are handed out, and what holds for each lane.

use super::Preset::Value;
use super::{HOUR_MS, Key, MINUTE_MS, SECOND_MS, Section, duration};
use crate::config::value::Kind;
use crate::config::{ChainQueryMode, HeldExpiry, NonceMode, OutsideUse, RejectPolicy, Underfunded};

pub(super) const NONCE: Section = Section {
    name: "nonce",
    is_list: false,
    text: "How nonces are handed out.",
    keys: &[
        Key::new(
            "mode",
            Kind::Choice(NonceMode::NAMES),
            Value("worker-queue"),
            "`\"worker-queue\"` batches the calls that wait for the same worker: faster, and no \
             less safe. `\"basic\"` does each call by itself and starts no worker.",
        ),
        Key::new(
            "worker_count",
            Kind::Integer { min: 1, max: 1_024 },
            Value("16"),
            "The number of workers. Each lane belongs to one of them.",
        ),
        Key::new(
            "worker_queue_capacity",
            Kind::Integer { min: 1, max: 1_000_000 },
            Value("1024"),
            "The most calls that wait for one worker before `nonce.reject_policy` applies.",
        ),
        Key::new(
            "reject_policy",
            Kind::Choice(RejectPolicy::NAMES),
            Value("fail-fast"),
            "What happens to a call when the queue is full: refused at once with 429, or kept \
             waiting up to `nonce.caller_wait`.",
        ),
        Key::new(
            "state_timeout",
            duration(SECOND_MS, HOUR_MS),
            Value("30s"),
            "How often the cursor of a lane is compared with the chain.",
        ),
        Key::new(
            "hold_timeout",
            duration(SECOND_MS, 24 * HOUR_MS),
            Value("60s"),
            "How long a caller may keep a nonce without marking it. After that \
             `nonce.held_expiry` applies.",
        ),
        Key::new(
            "caller_wait",
            duration(1, MINUTE_MS),
            Value("1s"),
            "The longest a call waits for room in a full queue with `\"caller-waits\"`.",
        ),
        Key::new(
            "held_expiry",
            Kind::Choice(HeldExpiry::NAMES),
            Value("suspect"),
            "What becomes of a nonce whose hold expired. `\"suspect\"` keeps it back until the \
             chain, the caller or an operator settles it; `\"reclaim\"` gives it out again, which \
             is safe only if no caller ever sends late.",
        ),
    ],
};

pub(super) const LEASE: Section = Section {
    name: "nonce.lease",
    is_list: false,
    text: "The right of one node to advance a lane.",
    keys: &[
        Key::new(
            "duration",
            duration(SECOND_MS, HOUR_MS),
            Value("10s"),
            "How long a lease lasts unless renewed: after a crash, about the time until another \
             node takes over.",
        ),
        Key::new(
            "renew_interval",
            duration(100, 30 * MINUTE_MS),
            Value("3s"),
            "How often leases are renewed in the background. Below half of \
             `nonce.lease.duration`, so that one missed renewal loses nothing.",
        ),
    ],
};

pub(super) const CHAIN_QUERY: Section = Section {
    name: "nonce.chain_query",
    is_list: false,
    text: "Asking the chain how far a signer is.",
    keys: &[
        Key::new(
            "enabled",
            Kind::Boolean,
            Value("true"),
            "Whether the chain is asked. With `false` a new lane starts at nonce 0, and what others \
             send with the signer goes unnoticed.",
        ),
        Key::new(
            "mode",
            Kind::Choice(ChainQueryMode::NAMES),
            Value("latest"),
            "Where a new lane starts: `\"latest\"` counts what is in a block, `\"pending\"` also \
             what waits in the pool of the chain node.",
        ),
    ],
};

pub(super) const LANE: Section = Section {
    name: "lane",
    is_list: false,
    text: "What holds for each lane: one signer on one chain.",
    keys: &[
        Key::new(
            "max_in_flight",
            Kind::Integer { min: 1, max: 1_000_000 },
            Value("500"),
            "The most managed transactions of a lane that have a nonce and are not yet in a \
             block. More of them wait.",
        ),
        Key::new(
            "outside_use",
            Kind::Choice(OutsideUse::NAMES),
            Value("pause"),
            "What happens when the chain shows that somebody else used the signer: the lane is \
             paused until an operator resumes it, or follows the chain.",
        ),
        Key::new(
            "underfunded",
            Kind::Choice(Underfunded::NAMES),
            Value("refuse"),
            "What becomes of a request that its account cannot pay for. What it needs is value and all of \
             the gas at the highest price offered, of this request and of everything that is open on the \
             lane: the same as chain nodes ask for. `\"refuse\"` answers with 422 and the balance that it \
             would have to have. `\"wait\"` takes the request; it is sent when there is money.",
        ),
        Key::new(
            "check_timeout",
            duration(100, MINUTE_MS),
            Value("1s"),
            "How long a request waits at most until the chain's endpoints say what it is checked against: \
             what its account has, how much gas blocks have room for, what the chain asks for. It is taken \
             without their word then. What they have said is remembered, so few requests wait.",
        ),
    ],
};
