//! What a transaction waits for, in words for people.
//!
//! One pure function from what is known to what is said. What is not known is left out: it is never
//! guessed, and nobody is asked for it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::tx::names;
use crate::{Finality, Heads, Nonce, Standing, SubState, TxId, TxState, UnknownName};

names! {
    /// What a transaction waits for.
    WaitCode {
        /// The signer is paused.
        Pause = "pause",
        /// As many of the signer's transactions are in flight as may be.
        Window = "window",
        /// Others of the signer come first.
        Nonce = "nonce",
        /// The endpoints of the chain do not answer, do not say what gas costs, or none of them has taken
        /// it.
        Endpoint = "endpoint",
        /// Its gas could not be estimated.
        Estimate = "estimate",
        /// The database was restored, and a person has to say whether it was sent before.
        Restored = "restored",
        /// The account cannot pay.
        Funds = "funds",
        /// The signer gives no signatures.
        Signer = "signer",
        /// It was sent and is in no block yet.
        Block = "block",
        /// Blocks on top of its own.
        Confirmations = "confirmations",
        /// The chain's own word for its block.
        Finality = "finality",
        /// The endpoints of the chain do not agree.
        Quorum = "quorum",
        /// Another node has the signer, or none.
        Holder = "holder",
    }
}

/// What a transaction waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// Its stable name.
    pub code: WaitCode,
    /// In words.
    pub words: String,
    /// The transaction that comes first, where it is known.
    pub behind: Option<Behind>,
}

/// A transaction of the same signer that comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind {
    /// Its nonce.
    pub nonce: Nonce,
    /// Which one it is.
    pub id: TxId,
}

/// What is known of a transaction and of what is around it.
#[derive(Debug, Clone)]
pub struct WaitFacts<'a> {
    /// Where it stands.
    pub standing: Standing,
    /// Its nonce.
    pub nonce: Option<Nonce>,
    /// The evidence it asks for.
    pub finality: Finality,
    /// The height of the block that it is in.
    pub block: Option<u64>,
    /// The height of the block that has another transaction at its nonce.
    pub rival: Option<u64>,
    /// What is wrong with it.
    pub error: Option<&'a str>,
    /// Its lane.
    pub lane: LaneState<'a>,
    /// Its chain; `None` if this node does not follow it.
    pub chain: Option<&'a ChainState>,
    /// The lowest of the lane's transactions that is in no block.
    pub lowest: Option<Behind>,
    /// The block that has it, where no receipt of it could be had.
    pub shown_in: Option<u64>,
}

/// What is known of a lane.
#[derive(Debug, Clone, Default)]
pub struct LaneState<'a> {
    /// Who has it.
    pub holder: LaneHolder<'a>,
    /// Why it is paused.
    pub paused: Option<&'a str>,
    /// Why it is not Stile's.
    pub elsewhere: Option<&'a str>,
    /// Why it was not compared with its chain yet.
    pub uncompared: Option<&'a str>,
    /// Whether what has no nonce waits for a person's word.
    pub is_restored: bool,
    /// How many are in flight, and how many may be.
    pub in_flight: Option<(u64, u64)>,
    /// Whether its account cannot pay.
    pub is_unfunded: bool,
    /// Why it last got no signature.
    pub signer_trouble: Option<&'a str>,
}

/// Who has a lane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LaneHolder<'a> {
    /// Nobody has asked.
    #[default]
    Unknown,
    /// The node that was asked.
    ThisNode,
    /// Another node.
    Other(&'a str),
    /// None: the lease of this node has run out.
    Nobody(&'a str),
}

/// What is known of a chain.
#[derive(Debug, Clone, Default)]
pub struct ChainState {
    /// Its id.
    pub chain: u64,
    /// How far it has come.
    pub heads: Option<Heads>,
    /// It has no such block: `safe`, and `finalized`.
    pub lacks_safe: bool,
    /// The same of `finalized`.
    pub lacks_finalized: bool,
    /// Why no endpoint of it is in use, if none is.
    pub unreachable: Option<String>,
    /// Why its newest blocks are not taken note of, if that has been so for a while.
    pub unfollowed: Option<String>,
    /// Why nobody says what gas costs, if something needs that and nobody does.
    pub unquoted: Option<String>,
    /// Why nothing is concluded.
    pub withheld: Option<String>,
    /// Whether it makes blocks only when it has transactions.
    pub is_on_demand: bool,
    /// For how long it has made no block, if it stands still while something waits for one, and how
    /// long one usually takes.
    pub standstill: Option<(Duration, Option<Duration>)>,
}

impl Wait {
    fn new(code: WaitCode, words: impl Into<String>) -> Self {
        Self { code, words: words.into(), behind: None }
    }
}

/// What a transaction waits for; `None` if it is done.
pub fn waiting_for(facts: &WaitFacts<'_>) -> Option<Wait> {
    match facts.standing.state {
        TxState::Confirmed | TxState::Failed => None,
        TxState::Created => Some(for_nonce(facts)),
        TxState::Allocated | TxState::Submitted => Some(match facts.rival {
            Some(height) => for_evidence(facts, height, "Another transaction has its nonce, and "),
            None => for_block(facts),
        }),
        TxState::Tracking => match facts.block.or(facts.rival) {
            Some(height) => Some(for_evidence(facts, height, "")),
            None => Some(for_block(facts)),
        },
    }
}

/// One that has no nonce.
fn for_nonce(facts: &WaitFacts<'_>) -> Wait {
    let lane = &facts.lane;
    let cleared = facts.standing.sub_state == Some(SubState::Cleared);
    if facts.standing.sub_state == Some(SubState::Restored) || (lane.is_restored && !cleared) {
        return Wait::new(
            WaitCode::Restored,
            "The database was restored, and it may have been sent before: a person has to say \
             whether it was (stile signer restored).",
        );
    }
    if let Some(why) = lane.elsewhere {
        return Wait::new(WaitCode::Holder, format!("The signer is not Stile's: {why}."));
    }
    if let Some(reason) = lane.paused {
        return Wait::new(WaitCode::Pause, format!("The signer is paused: {reason}."));
    }
    if facts.standing.sub_state == Some(SubState::Estimating) {
        let why = facts.error.unwrap_or("the chain's endpoints do not say");
        let words = format!("Its gas could not be estimated and is tried again: {why}.");
        return Wait::new(WaitCode::Estimate, words);
    }
    if let Some(wait) = nobody(lane) {
        return wait;
    }
    if let Some(wait) = unreachable(facts) {
        return wait;
    }
    if let Some(why) = lane.uncompared {
        let words = format!("The signer was not compared with its chain yet: {why}.");
        return Wait::new(WaitCode::Endpoint, words);
    }
    if let Some(why) = lane.signer_trouble {
        return Wait::new(WaitCode::Signer, format!("The signer gives no signatures: {why}."));
    }
    if lane.is_unfunded {
        return Wait::new(WaitCode::Funds, UNFUNDED);
    }
    if let Some((in_flight, most)) = lane.in_flight
        && in_flight >= most
    {
        let words = format!(
            "{in_flight} transactions of the signer are in flight, as many as lane.max_in_flight \
             allows.{}",
            standstill(facts)
        );
        return Wait { behind: facts.lowest, ..Wait::new(WaitCode::Window, words) };
    }
    if let LaneHolder::Other(node) = lane.holder {
        let words =
            format!("Node {node} has the signer, and gives out its nonces in order of acceptance.");
        return Wait::new(WaitCode::Holder, words);
    }
    if let Some(chain) = facts.chain
        && let Some(why) = &chain.unquoted
    {
        let words = format!("No endpoint of chain {} says what gas costs: {why}.", chain.chain);
        return Wait::new(WaitCode::Endpoint, words);
    }
    Wait::new(WaitCode::Nonce, "It waits for its turn to get a nonce, in order of acceptance.")
}

const UNFUNDED: &str = "The account cannot pay for its next transaction. The rest goes on by \
                        itself once it can.";

fn nobody(lane: &LaneState<'_>) -> Option<Wait> {
    let LaneHolder::Nobody(node) = lane.holder else { return None };
    let words = format!(
        "No node has the signer: the lease of node {node} has run out. A running node that reaches \
         the database takes it within seconds."
    );
    Some(Wait::new(WaitCode::Holder, words))
}

fn unreachable(facts: &WaitFacts<'_>) -> Option<Wait> {
    let chain = facts.chain?;
    let words = match (&chain.unreachable, &chain.unfollowed) {
        (Some(why), _) => format!("No endpoint of chain {} answers: {why}.", chain.chain),
        (None, Some(why)) => format!("Chain {} cannot be followed: {why}.", chain.chain),
        (None, None) => return None,
    };
    Some(Wait::new(WaitCode::Endpoint, words))
}

/// One that has a nonce and is in no block.
fn for_block(facts: &WaitFacts<'_>) -> Wait {
    let (lane, sub_state) = (&facts.lane, facts.standing.sub_state);
    if let Some(wait) = nobody(lane).or_else(|| unreachable(facts)) {
        return wait;
    }
    let is_lowest = |below: &Behind| facts.nonce.is_none_or(|own| below.nonce >= own);
    if let Some(below) = facts.lowest.filter(|below| !is_lowest(below)) {
        let words = format!(
            "It waits behind nonce {} ({}), which is in no block yet.{}{}",
            below.nonce,
            below.id,
            if lane.is_unfunded { format!(" {UNFUNDED}") } else { String::new() },
            standstill(facts)
        );
        return Wait { behind: Some(below), ..Wait::new(WaitCode::Nonce, words) };
    }
    if lane.is_unfunded || sub_state == Some(SubState::InsufficientFunds) {
        return Wait::new(WaitCode::Funds, UNFUNDED);
    }
    if let Some(height) = facts.shown_in {
        let words = format!(
            "Block {height} has it, and no endpoint gives a receipt of it that can be read."
        );
        return Wait::new(WaitCode::Endpoint, words);
    }
    let why = facts.error.map(|why| format!(": {why}")).unwrap_or_default();
    if sub_state == Some(SubState::Rejected) {
        return Wait::new(WaitCode::Endpoint, format!("The chain's endpoints refuse it{why}."));
    }
    if sub_state == Some(SubState::Underpriced) {
        let words = format!("The chain asks for more than it offers{why}.{}", standstill(facts));
        return Wait::new(WaitCode::Block, words);
    }
    if facts.standing.state == TxState::Allocated {
        return Wait::new(WaitCode::Endpoint, format!("No endpoint has taken it yet{why}."));
    }
    let words = format!("It was sent and waits to be mined.{}", standstill(facts));
    Wait::new(WaitCode::Block, words)
}

/// One whose block is known, or that of the transaction which took its nonce.
fn for_evidence(facts: &WaitFacts<'_>, height: u64, before: &str) -> Wait {
    if let Some(wait) = nobody(&facts.lane).or_else(|| unreachable(facts)) {
        return wait;
    }
    let unknown = ChainState::default();
    let chain = facts.chain.unwrap_or(&unknown);
    let sentence = |words: String| {
        let words = format!("{before}{words}");
        let mut letters = words.chars();
        letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or(words)
    };
    let Some(heads) = chain.heads else {
        let words =
            sentence(format!("it is in block {height}; this node has not seen the chain yet."));
        return Wait::new(WaitCode::Confirmations, words);
    };
    if height > heads.latest {
        let words = format!(
            "its block {height} is above the newest of its chain, {}: the chain was reset, or its \
             endpoint is behind.",
            heads.latest
        );
        return match facts.lane.paused {
            Some(_) => Wait::new(
                WaitCode::Pause,
                sentence(words) + " The signer is paused until a person has looked.",
            ),
            None => Wait::new(WaitCode::Confirmations, sentence(words)),
        };
    }
    if facts.finality.is_reached(height, &heads) {
        let words = match &chain.withheld {
            Some(words) => format!("the endpoints have to agree: {words}."),
            None => "it has what it asked for, and is about to be concluded.".to_owned(),
        };
        return Wait::new(WaitCode::Quorum, sentence(words));
    }
    let (words, code) = match facts.finality {
        Finality::Confirmations(required) => {
            let missing = height.saturating_add(u64::from(required)).saturating_sub(heads.latest);
            (more_blocks(missing, required, chain), WaitCode::Confirmations)
        }
        Finality::Safe => {
            let words = tagged("safe", height, heads.safe.max(heads.finalized), chain.lacks_safe);
            (words, WaitCode::Finality)
        }
        Finality::Finalized => {
            let words = tagged("finalized", height, heads.finalized, chain.lacks_finalized);
            (words, WaitCode::Finality)
        }
    };
    let words = match chain.is_on_demand {
        true => format!("{words}; {ON_DEMAND}."),
        false => format!("{words}.{}", standstill(facts)),
    };
    let disagreement =
        chain.withheld.as_ref().map(|words| format!(" The endpoints do not agree: {words}."));
    Wait::new(code, sentence(words) + &disagreement.unwrap_or_default())
}

/// What is said of a chain that makes blocks only when it has transactions.
const ON_DEMAND: &str = "this chain makes blocks only when it has transactions: use finality \
                         {\"confirmations\": 0} for the next ones, which is --finality 0 at the \
                         terminal";

fn more_blocks(missing: u64, required: u32, chain: &ChainState) -> String {
    let blocks = if missing == 1 { "block" } else { "blocks" };
    let usual = chain.standstill.is_none() && !chain.is_on_demand;
    let of = if usual { format!(" of {required}") } else { String::new() };
    format!("{missing} more {blocks}{of} on top of its own")
}

fn tagged(tag: &str, height: u64, reached: Option<u64>, is_lacking: bool) -> String {
    match reached {
        _ if is_lacking => format!(
            "the chain is to call its block {height} {tag}, and calls none of its blocks so: this \
             does not come"
        ),
        None => format!("the chain is to call its block {height} {tag}, and calls none so yet"),
        Some(reached) => {
            format!(
                "the chain is to call its block {height} {tag}, and does so up to block {reached}"
            )
        }
    }
}

/// That the chain makes no block, as a sentence with a space before it.
fn standstill(facts: &WaitFacts<'_>) -> String {
    let Some(chain) = facts.chain else { return String::new() };
    let Some((silent, usual)) = chain.standstill else { return String::new() };
    format!(" Chain {} has made {}.", chain.chain, no_block(silent, usual))
}

/// For how long there was no block, beside how long one usually takes.
pub fn no_block(silent: Duration, usual: Option<Duration>) -> String {
    let silent = silent.as_secs();
    match usual {
        Some(usual) if usual < Duration::from_secs(1) => {
            format!("no block for {silent} s; the last ones came within a second of each other")
        }
        Some(usual) => {
            format!(
                "no block for {silent} s; the last ones came every {:.0} s",
                usual.as_secs_f64()
            )
        }
        None => format!("no block for {silent} s"),
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::Outcome;

    fn at(state: TxState) -> Standing {
        Standing { state, ..Standing::CREATED }
    }

    fn chain() -> ChainState {
        let heads = Heads { latest: 100, safe: Some(90), finalized: Some(80) };
        ChainState { chain: 5, heads: Some(heads), ..ChainState::default() }
    }

    fn facts(state: TxState, chain: &ChainState) -> WaitFacts<'_> {
        let held = LaneState { holder: LaneHolder::ThisNode, ..LaneState::default() };
        WaitFacts {
            standing: at(state),
            nonce: (state != TxState::Created).then_some(7),
            finality: Finality::Confirmations(2),
            block: (state == TxState::Tracking).then_some(100),
            rival: None,
            error: None,
            lane: held,
            chain: Some(chain),
            lowest: None,
            shown_in: None,
        }
    }

    fn with_sub(sub_state: SubState, facts: WaitFacts<'_>) -> WaitFacts<'_> {
        let standing = Standing { sub_state: Some(sub_state), ..facts.standing };
        WaitFacts { standing, ..facts }
    }

    fn behind(nonce: Nonce) -> Option<Behind> {
        Some(Behind { nonce, id: TxId(Uuid::nil()) })
    }

    #[track_caller]
    fn waits(facts: WaitFacts<'_>, code: &str, part: &str) {
        let wait = waiting_for(&facts).expect("it waits for something");
        assert_eq!(wait.code.name(), code, "{}", wait.words);
        assert!(wait.words.contains(part), "{}", wait.words);
        assert!(wait.words.starts_with(|first: char| first.is_uppercase() || first.is_numeric()));
        assert!(wait.words.ends_with('.') && !wait.words.contains("  "), "{}", wait.words);
    }

    #[test]
    fn hole_38_every_wait_before_a_nonce_has_its_words() {
        use TxState::Created;
        let chain = chain();
        let on = |lane: LaneState<'static>| WaitFacts { lane, ..facts(Created, &chain) };
        let lane = LaneState::default;
        waits(facts(Created, &chain), "nonce", "its turn");
        waits(on(LaneState { paused: Some("key rotation"), ..lane() }), "pause", "key rotation");
        waits(on(LaneState { elsewhere: Some("ask V1"), ..lane() }), "holder", "ask V1");
        waits(on(LaneState { is_restored: true, ..lane() }), "restored", "a person has to say");
        let cleared = on(LaneState { is_restored: true, ..lane() });
        waits(with_sub(SubState::Cleared, cleared), "nonce", "its turn");
        waits(with_sub(SubState::Restored, facts(Created, &chain)), "restored", "restored");
        let unestimated = WaitFacts { error: Some("no answer in 3s"), ..facts(Created, &chain) };
        waits(with_sub(SubState::Estimating, unestimated), "estimate", "no answer in 3s");
        waits(
            on(LaneState { in_flight: Some((500, 500)), ..lane() }),
            "window",
            "500 transactions",
        );
        waits(on(LaneState { in_flight: Some((499, 500)), ..lane() }), "nonce", "its turn");
        waits(on(LaneState { is_unfunded: true, ..lane() }), "funds", "cannot pay");
        waits(on(LaneState { signer_trouble: Some("refused"), ..lane() }), "signer", "refused");
        waits(on(LaneState { uncompared: Some("no answer"), ..lane() }), "endpoint", "compared");
        waits(on(LaneState { holder: LaneHolder::Other("b"), ..lane() }), "holder", "Node b has");
        waits(on(LaneState { holder: LaneHolder::Nobody("b"), ..lane() }), "holder", "run out");
        let away =
            ChainState { unreachable: Some("node:8545 refused".to_owned()), ..chain.clone() };
        waits(
            facts(Created, &away),
            "endpoint",
            "No endpoint of chain 5 answers: node:8545 refused.",
        );
        let why = "node:8545: eth_gasPrice: answered with HTTP status 403".to_owned();
        let unquoted = ChainState { unquoted: Some(why), ..chain.clone() };
        let words = "No endpoint of chain 5 says what gas costs: node:8545: eth_gasPrice: answered \
                     with HTTP status 403.";
        waits(facts(Created, &unquoted), "endpoint", words);
        let full = LaneState { in_flight: Some((500, 500)), ..lane() };
        waits(WaitFacts { lane: full, ..facts(Created, &unquoted) }, "window", "500 transactions");
        // What has its nonce needs no quote.
        waits(facts(TxState::Submitted, &unquoted), "block", "waits to be mined");
        // What only another node knows is not said.
        waits(WaitFacts { chain: None, ..on(lane()) }, "nonce", "its turn");
    }

    #[test]
    fn hole_38_every_wait_for_a_block_has_its_words() {
        use TxState::{Allocated, Submitted, Tracking};
        let chain = chain();
        waits(facts(Submitted, &chain), "block", "waits to be mined.");
        waits(facts(Allocated, &chain), "endpoint", "No endpoint has taken it yet.");
        waits(WaitFacts { block: None, ..facts(Tracking, &chain) }, "block", "to be mined");
        let queued = WaitFacts { lowest: behind(5), ..facts(Submitted, &chain) };
        waits(queued.clone(), "nonce", "behind nonce 5 (00000000");
        assert_eq!(waiting_for(&queued).unwrap().behind, behind(5));
        waits(WaitFacts { lowest: behind(7), ..facts(Submitted, &chain) }, "block", "to be mined");
        for (sub_state, code, part) in [
            (SubState::InsufficientFunds, "funds", "cannot pay"),
            (SubState::Rejected, "endpoint", "refuse it: out of gas."),
            (SubState::Underpriced, "block", "asks for more than it offers: out of gas."),
            (SubState::Stale, "block", "waits to be mined."),
        ] {
            let held_up = WaitFacts { error: Some("out of gas"), ..facts(Submitted, &chain) };
            waits(with_sub(sub_state, held_up), code, part);
        }
        let shown = WaitFacts { shown_in: Some(7), ..facts(Submitted, &chain) };
        waits(shown, "endpoint", "Block 7 has it, and no endpoint gives a receipt");
        let unread = ChainState { unfollowed: Some("no".to_owned()), ..chain.clone() };
        waits(facts(Submitted, &unread), "endpoint", "Chain 5 cannot be followed: no.");
        let two = Some(Duration::from_secs(2));
        let still =
            ChainState { standstill: Some((Duration::from_secs(45), two)), ..chain.clone() };
        let words = "Chain 5 has made no block for 45 s; the last ones came every 2 s.";
        waits(facts(Submitted, &still), "block", words);
        waits(WaitFacts { lowest: behind(5), ..facts(Submitted, &still) }, "nonce", words);
    }

    #[test]
    fn hole_38_every_wait_for_finality_has_its_words() {
        use TxState::{Submitted, Tracking};
        let chain = chain();
        let asks = |finality, chain| WaitFacts { finality, ..facts(Tracking, chain) };
        waits(facts(Tracking, &chain), "confirmations", "2 more blocks of 2 on top of its own.");
        let one = WaitFacts { block: Some(99), ..facts(Tracking, &chain) };
        waits(one, "confirmations", "1 more block of 2");
        let on_demand = ChainState { is_on_demand: true, ..chain.clone() };
        waits(
            facts(Tracking, &on_demand),
            "confirmations",
            "2 more blocks on top of its own; this chain makes blocks only when it has \
             transactions: use finality {\"confirmations\": 0} for the next ones, which is --finality 0 at \
             the terminal.",
        );
        let still =
            ChainState { standstill: Some((Duration::from_secs(45), None)), ..chain.clone() };
        waits(facts(Tracking, &still), "confirmations", "Chain 5 has made no block for 45 s.");
        waits(
            asks(Finality::Safe, &chain),
            "finality",
            "block 100 safe, and does so up to block 90.",
        );
        waits(asks(Finality::Finalized, &chain), "finality", "up to block 80.");
        let untagged = Heads { latest: 100, safe: None, finalized: None };
        let silent = ChainState { heads: Some(untagged), ..chain.clone() };
        waits(asks(Finality::Safe, &silent), "finality", "calls none so yet.");
        let lacking = ChainState { lacks_safe: true, ..silent.clone() };
        waits(asks(Finality::Safe, &lacking), "finality", "this does not come.");
        // It is deep enough: the endpoints have to agree.
        let apart = ChainState { withheld: Some("they differ".to_owned()), ..chain.clone() };
        waits(
            asks(Finality::Confirmations(0), &apart),
            "quorum",
            "The endpoints have to agree: they differ.",
        );
        waits(asks(Finality::Confirmations(0), &chain), "quorum", "about to be concluded");
        let gone = WaitFacts { block: Some(500), ..facts(Tracking, &chain) };
        waits(gone.clone(), "confirmations", "Its block 500 is above the newest of its chain");
        let paused = LaneState { paused: Some("it was reset"), ..gone.lane.clone() };
        waits(WaitFacts { lane: paused, ..gone }, "pause", "until a person has looked");
        let unseen = ChainState { heads: None, ..chain.clone() };
        waits(facts(Tracking, &unseen), "confirmations", "has not seen the chain");
        let taken = WaitFacts { rival: Some(99), ..facts(Submitted, &chain) };
        waits(taken, "confirmations", "Another transaction has its nonce, and 1 more block");
        let lane = LaneState { holder: LaneHolder::Nobody("b"), ..LaneState::default() };
        waits(WaitFacts { lane, ..facts(Tracking, &chain) }, "holder", "lease of node b");
    }

    #[test]
    fn hole_38_what_is_done_waits_for_nothing() {
        let chain = chain();
        for state in [TxState::Confirmed, TxState::Failed] {
            let standing = Standing { outcome: Some(Outcome::Success), ..at(state) };
            assert_eq!(waiting_for(&WaitFacts { standing, ..facts(state, &chain) }), None);
        }
    }
}
