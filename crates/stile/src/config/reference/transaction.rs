//! How managed transactions are sent, and when they are called done.

use super::Preset::{Unset, Value};
use super::{HOUR_MS, Key, MINUTE_MS, SECOND_MS, Section, duration};
use crate::config::FinalityTag;
use crate::config::value::Kind;

pub(super) const RESUBMIT: Section = Section {
    name: "tx.resubmit",
    is_list: false,
    text: "Sending again what does not get mined.",
    keys: &[
        Key::new(
            "enabled",
            Kind::Boolean,
            Value("true"),
            "Whether transactions are sent again at all.",
        ),
        Key::new(
            "interval",
            duration(SECOND_MS, 24 * HOUR_MS),
            Value("60s"),
            "The silence after which the stored bytes of a transaction are sent again.",
        ),
        Key::new(
            "bump_after",
            duration(SECOND_MS, 24 * HOUR_MS),
            Value("120s"),
            "The silence after which an attempt with a higher fee is made. While the chain makes no block, none is made, unless it makes blocks only when it has transactions.",
        ),
        Key::new(
            "bump_percent",
            Kind::Decimal { min: 10.0, max: 1_000.0 },
            Value("12.5"),
            "By how much such an attempt raises the fee. Chain nodes refuse replacements that \
             raise it by less than 10 %.",
        ),
        Key::new(
            "max_attempts",
            Kind::Integer { min: 0, max: 1_000_000 },
            Value("0"),
            "How often one transaction is sent at most; 0 means no limit. After that it stays as it is and \
             says STALE.",
        ),
    ],
};

pub(super) const FEES: Section = Section {
    name: "tx.fees",
    is_list: false,
    text: "What transactions offer whose callers do not say. Limits are with each chain.",
    keys: &[
        Key::new(
            "percentile",
            Kind::Decimal { min: 1.0, max: 99.0 },
            Value("50"),
            "Which part of a block's gas paid less on top of the base fee than is offered, by \
             `eth_feeHistory`.",
        ),
        Key::new(
            "blocks",
            Kind::Integer { min: 1, max: 100 },
            Value("5"),
            "From how many of the newest blocks that is read.",
        ),
    ],
};

pub(super) const ESTIMATE: Section = Section {
    name: "tx.estimate",
    is_list: false,
    text: "Finding out how much gas a transaction needs whose caller does not say. One that cannot be \
           estimated holds up nobody: it waits with `subState` ESTIMATING.",
    keys: &[
        Key::new(
            "tries",
            Kind::Integer { min: 1, max: 1_000 },
            Value("8"),
            "How often it is tried before the transaction is refused, which costs no nonce. Tries do \
             not count while no endpoint of the chain can be reached.",
        ),
        Key::new(
            "interval",
            duration(100, HOUR_MS),
            Value("2s"),
            "The pause after the first try. Each further one is twice as long.",
        ),
        Key::new("max_interval", duration(100, 24 * HOUR_MS), Value("60s"), "The longest pause."),
    ],
};

pub(super) const CONFIRMATIONS: Section = Section {
    name: "confirmations",
    is_list: false,
    text: "When a transaction is called done. Give `required` or `finality`, not both.",
    keys: &[
        Key::new(
            "required",
            Kind::Integer { min: 0, max: 100_000 },
            Value("20"),
            "The number of blocks on top of the transaction's own: 0 for mined is enough, as on \
             chains that make blocks only when they have transactions. Not above \
             `confirmations.reorg_window`.",
        ),
        Key::new(
            "finality",
            Kind::Choice(FinalityTag::NAMES),
            Unset("`confirmations.required` counts"),
            "Goes by the chain's own word for a block instead of a number of blocks.",
        ),
        Key::new(
            "stale_receipt_timeout",
            duration(SECOND_MS, HOUR_MS),
            Value("60s"),
            "The silence after which the receipt of a transaction is asked for by itself.",
        ),
        Key::new(
            "receipt_workers",
            Kind::Integer { min: 1, max: 1_000 },
            Value("10"),
            "The most receipts asked for at the same time.",
        ),
        Key::new(
            "fetch_receipt_upon_entry",
            Kind::Boolean,
            Value("false"),
            "Whether the receipt is asked for right after the broadcast, for chains that mine at \
             once.",
        ),
        Key::new(
            "reorg_window",
            Kind::Integer { min: 1, max: 100_000 },
            Value("128"),
            "The depth in blocks from which a transaction is not reopened any more by a \
             reorganisation.",
        ),
        Key::new(
            "poll_interval",
            duration(50, MINUTE_MS),
            Value("500ms"),
            "How often each endpoint is asked for its newest block, two calls in one request each \
             time. A chain that makes its blocks by a clock is looked at four times in a block and \
             every two seconds at least, where that is less often. Raise it where calls cost money and blocks are slow. Endpoints with `ws://` or \
             `wss://` announce new blocks, which are then looked at at once.",
        ),
    ],
};
