//! The chains and the signers.

use super::Preset::{Required, Unset, Value};
use super::{Key, MINUTE_MS, Section, duration};
use crate::config::IntrinsicGas;
use crate::config::value::Kind;

/// The highest chain id that fits a signature (EIP-2294).
const HIGHEST_CHAIN_ID: i64 = i64::MAX - 36;

const CHAIN_ID: Kind = Kind::Integer { min: 1, max: HIGHEST_CHAIN_ID };
const ENDPOINT_SCHEMES: &[&str] = &["http", "https", "ws", "wss"];
const HTTP_SCHEMES: &[&str] = &["http", "https"];

pub(super) const CHAIN: Section = Section {
    name: "chain",
    is_list: true,
    text: "A chain. There may be any number of them.",
    keys: &[
        Key::new("id", CHAIN_ID, Required, "The chain id; no two chains share one."),
        Key::new(
            "endpoints",
            Kind::UrlList(ENDPOINT_SCHEMES),
            Value("[]"),
            "Where nodes of the chain are reached. Without any, the chain cannot be asked how far \
             a signer is.",
        ),
        Key::new(
            "max_fee_gwei",
            Kind::Decimal { min: 0.000_000_001, max: 1_000_000_000.0 },
            Unset("ten times what the chain asks for now, and 100 gwei at least"),
            "The most that any attempt may offer for a unit of gas, in gwei: first ones, higher offers, \
             speed-ups, cancellations and empty transactions for gaps. Requests and speed-ups that state \
             more are refused with 422. Transactions whose callers state a price or a `feeLimit` stay \
             below that too. While a chain asks for more than this limit its transactions wait, and are \
             sent when it asks for less. What the chain asks for is twice the base fee and the usual tip, \
             by the middle of what the endpoints say, of two the lower.",
        ),
        Key::new(
            "max_concurrency",
            Kind::Integer { min: 0, max: 10_000 },
            Value("0"),
            "How many calls may be under way at one time at each of these endpoints, from all nodes \
             together where they share a Redis, else from this one; a batch is one call. 0 is no limit. See \
             [registry](registry.md#calls-to-chain-endpoints).",
        ),
        Key::new(
            "quorum",
            Kind::Integer { min: 1, max: 1000 },
            Unset("1 of 1, 1 of 2, and the majority of 3 and more"),
            "How many of the endpoints have to agree before a transaction is called done or taken back. \
             Counted over all of `endpoints`: one that is away does not vote and is still counted. Whoever \
             contradicts stops the conclusion unless a majority of all outvotes it.",
        ),
        Key::new(
            "answer_timeout",
            duration(100, MINUTE_MS),
            Value("3s"),
            "How long each of these endpoints has for an answer; a batch is given moderately longer. Raise \
             it where the only endpoint is slow: one that never answers in time counts as away.",
        ),
        Key::new(
            "intrinsic_gas",
            Kind::Choice(IntrinsicGas::NAMES),
            Value("ethereum"),
            "Whether a gas limit is refused with 422 that is below what the transaction costs before \
             anything of it is run, by Ethereum's rules: 21000, call data, creation, and what Shanghai and \
             Prague have added, if the newest block shows that the chain has them. `unchecked` is for \
             chains that count gas by rules of their own, as those of ZKsync do.",
        ),
    ],
};

pub(super) const SIGNER: Section = Section {
    name: "signer",
    is_list: true,
    text: "A signer. There may be any number of them. Each has one of `address` alone, `key`, \
           `keystore`, or `remote` together with `address`.",
    keys: &[
        Key::new(
            "chain",
            CHAIN_ID,
            Unset("every configured chain"),
            "The id of the only chain this signer is for: its key signs on no other. Left out, it is for \
             every `[[chain]]`. Each signer has one entry per chain at most; a second source of \
             signatures for the same address and chain is an error.",
        ),
        Key::new(
            "address",
            Kind::Address,
            Unset("taken from the key"),
            "Alone: a signer whose callers take nonces and sign by themselves. With `keystore` or \
             `remote`: the address they must turn out to have.",
        ),
        Key::new(
            "key",
            Kind::Secret,
            Unset("none"),
            "Where the private key is kept. The key itself is never written into the configuration.",
        ),
        Key::new(
            "keystore",
            Kind::Path,
            Unset("none"),
            "An encrypted key file. A relative path starts at the working directory.",
        ),
        Key::new(
            "password",
            Kind::Secret,
            Unset("none"),
            "Where the password of `keystore` is kept.",
        ),
        Key::new(
            "remote",
            Kind::Url(HTTP_SCHEMES),
            Unset("none"),
            "A server that signs on request; needs `address`.",
        ),
    ],
};
