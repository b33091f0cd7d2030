//! How much gas a transaction needs.
//!
//! An amount that is too small has the transaction fail on chain, and one that is too large has it
//! refused: so where several endpoints have to agree, an amount is what two of them say, and a third
//! decides where they differ. Elsewhere one word is enough, unless it cannot be.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use alloy::primitives::{Address, Bytes, U256};
use serde_json::{Value, json};
use stile_domain::{AccessListSize, GasRules, Payload, intrinsic_gas};

use crate::blocks::{Block, With, latest_call, read_block};
use crate::calls::Method;
use crate::capability::Capability;
use crate::classify::{self, Refusal};
use crate::endpoint::Endpoint;
use crate::estimate_block::{After, EstimateBlock};
use crate::in_turn::{Reply, in_turn};
use crate::pool::one;
use crate::rpc::{Answer, Bad, Call, CallError, read_some_checked};
use crate::unreadable::WHOLE;
use crate::{ChainError, ChainPool};

/// Why there is no estimate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EstimateError {
    /// The transaction would fail.
    #[error("would be reverted: {reason}")]
    Reverted {
        /// The contract's words, where it gave any that can be read.
        reason: String,
        /// What the contract returned.
        data: Option<Bytes>,
    },
    /// The node understood and said no, as to an account without funds.
    #[error("{0}")]
    Refused(String),
    /// Nobody could be asked, or nobody gave an answer that can be relied upon. This may pass.
    #[error(transparent)]
    Unavailable(#[from] ChainError),
}

impl ChainPool {
    /// The gas that a transaction from this account would use, on top of what is pending. Its fees
    /// are left out: an estimate is about gas, not about what it costs. What one endpoint says is
    /// weighed against what the others say: see [`settle`].
    pub async fn estimate_gas(
        &self,
        from: Address,
        payload: &Payload,
    ) -> Result<u64, EstimateError> {
        let request = request(from, payload);
        let endpoints = self.usable().await?;
        let names: Vec<String> = endpoints.iter().map(|it| it.shown().to_owned()).collect();
        let panel = Panel {
            configured: self.endpoints.len(),
            required: self.quorum.required(),
            least: intrinsic_gas(payload, AccessListSize::default(), self.shown_rules()),
            all_in: false,
        };
        // Where there is only one endpoint, its own word about its blocks says nothing more.
        let most = self.block_gas().filter(|_| panel.configured > 1);
        let heard: Mutex<Vec<Word>> = Mutex::default();
        let ask = |endpoint: Arc<Endpoint>| {
            let (request, heard) = (&request, &heard);
            async move {
                let answer = estimate_of(&endpoint, request).await;
                // An endpoint is not set aside for being slow here: the question may be too much
                // for anybody, and a look finds out who is away.
                match &answer {
                    Err(error @ CallError::Unreachable) => endpoint.note(error),
                    Err(error) if endpoint.rests().is_some() => endpoint.note(error),
                    _ => {}
                }
                let word = match judge(answer, most) {
                    Ok(word) => word,
                    Err(why) => return Reply::Next(endpoint.complaint(why)),
                };
                let words = endpoint.complaint(&word);
                let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                heard.push(word);
                match settle(&heard, panel) {
                    Some(settled) => Reply::Decides(settled),
                    None => Reply::Next(words),
                }
            }
        };
        // Whoever waits for an estimate waits for one time limit, however many endpoints hang.
        let limit = self.patience();
        let deadline = tokio::time::Instant::now() + limit;
        let at_once = panel.required.min(2);
        let mut said = match in_turn(endpoints, at_once, limit, Some(deadline), ask).await {
            Ok(estimate) => return estimate,
            Err(said) => said,
        };
        let heard = heard.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(settled) = settle(&heard, Panel { all_in: true, ..panel }) {
            return settled;
        }
        for shown in names {
            if !said.iter().any(|words| is_of(words, &shown)) {
                said.push(format!("{shown}: no answer in {limit:?} to eth_estimateGas"));
            }
        }
        Err(ChainError::Unreachable { chain: self.chain(), said }.into())
    }

    /// Whether any endpoint can be asked at all, found out by a look that is not older than this
    /// call, or by one under way.
    pub async fn is_reachable(&self) -> bool {
        self.view().await.is_ok()
    }

    /// What a block of the chain has room for, and by which rules gas is counted, by what the endpoints
    /// say now, within the time.
    pub async fn block_terms(&self, within: Duration) -> BlockTerms {
        let usable = tokio::time::timeout(within, self.usable()).await;
        let Ok(Ok(endpoints)) = usable else { return BlockTerms::default() };
        let newest = latest_call(With::Hashes);
        let ask = async |endpoint: &Arc<Endpoint>| {
            let block = read_block(one(endpoint, &newest).await).ok().flatten()?;
            endpoint.note_block(&block);
            Some(block)
        };
        let asked = endpoints.iter().map(|it| tokio::time::timeout(within, ask(it)));
        let told = futures::future::join_all(asked).await;
        let told: Vec<Block> = told.into_iter().filter_map(|it| it.ok().flatten()).collect();
        let limits = told.iter().filter_map(|block| block.gas_limit).collect();
        let configured = self.endpoints.len();
        BlockTerms {
            gas: BlockGasLimit::of(limits, self.quorum.required(), configured),
            rules: agreed_rules(told.iter().map(|block| block.rules), configured),
        }
    }

    /// Whether more than half of the configured endpoints have shown that call data has its old price on
    /// this chain.
    pub fn has_dear_data(&self) -> bool {
        self.shown_rules().has_dear_data
    }

    /// The rules that the endpoints have shown so far.
    fn shown_rules(&self) -> GasRules {
        agreed_rules(self.endpoints.iter().map(|it| it.rules()), self.endpoints.len())
    }

    /// The most gas of a block, by what the endpoints have said so far.
    fn block_gas(&self) -> Option<u64> {
        middle(self.endpoints.iter().filter_map(|it| it.block_gas()).collect())
    }
}

/// What holds for the blocks of a chain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockTerms {
    /// The most gas of a block. `None` if fewer than a quorum say so.
    pub gas: Option<BlockGasLimit>,
    /// The rules that more than half of the configured endpoints show: by a rule that a chain does not
    /// have, what it would take is refused, so no endpoint is believed alone where there are others.
    pub rules: GasRules,
}

/// The rules that more than half of so many endpoints show.
fn agreed_rules(shown: impl Iterator<Item = GasRules> + Clone, configured: usize) -> GasRules {
    let most = |has: fn(&GasRules) -> bool| shown.clone().filter(has).count() > configured / 2;
    GasRules {
        counts_initcode: most(|rules| rules.counts_initcode),
        has_data_floor: most(|rules| rules.has_data_floor),
        has_dear_data: most(|rules| rules.has_dear_data),
    }
}

/// The most gas of a chain's blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockGasLimit {
    /// The middle of what the endpoints say, of an even number the higher.
    pub middle: u64,
    /// More than half of the configured endpoints say that it is no more than this. `None` if fewer say
    /// anything.
    pub agreed: Option<u64>,
}

impl BlockGasLimit {
    /// By what was told, where so many have to agree of so many that are configured. No block has no gas
    /// at all: whoever says so says nothing.
    fn of(mut told: Vec<u64>, required: usize, configured: usize) -> Option<Self> {
        told.retain(|limit| *limit > 0);
        told.sort_unstable();
        let agreed = told.get(configured / 2).copied();
        let middle = (told.len() >= required).then(|| middle(told))??;
        Some(Self { middle, agreed })
    }
}

/// Whether these words are an endpoint's, by the name that they begin with. One name may be the beginning
/// of another.
fn is_of(words: &str, shown: &str) -> bool {
    words.strip_prefix(shown).is_some_and(|rest| rest.starts_with(": "))
}

/// The middle of what several say, of an even number the higher.
fn middle(mut told: Vec<u64>) -> Option<u64> {
    told.sort_unstable();
    told.get(told.len() / 2).copied()
}

/// What an endpoint answers, on top of the best block that it is known to take.
pub(crate) async fn estimate_of(endpoint: &Endpoint, request: &Value) -> Answer {
    estimate_from(endpoint, endpoint.estimate_block(), request).await
}

/// The same, and what is known of it is found out anew.
pub(crate) async fn estimate_anew(endpoint: &Endpoint, request: &Value) -> Answer {
    estimate_from(endpoint, EstimateBlock::default(), request).await
}

/// The gas that an answer states, if it states any.
pub(crate) fn stated_gas(answer: Answer) -> Option<u64> {
    let gas = read_some_checked(answer, |gas: U256| u64::try_from(gas).map_err(|_| ABSURD));
    gas.ok()
}

/// What an endpoint answers on top of the first block that it takes, from this one on.
async fn estimate_from(endpoint: &Endpoint, first: EstimateBlock, request: &Value) -> Answer {
    let ask = async |block: EstimateBlock| {
        one(endpoint, &Call::new(Method::EstimateGas, block.params(request))).await
    };
    let mut block = first;
    loop {
        let answer = ask(block).await;
        let Err(error) = &answer else {
            endpoint.note_estimate_block(first, block);
            return answer;
        };
        let can = endpoint.knows(Capability::EstimateOnPending) == Some(true);
        match block.after(error, can) {
            After::Next(next) => block = next,
            // Another refusal says less: there the transaction may rest on what is not mined.
            After::Once(other) => return ask(other).await.or(answer),
            After::Stop => return answer,
        }
    }
}

/// What an endpoint says about a transaction's gas.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Word {
    #[error("{0} gas")]
    Amount(u64),
    /// It would fail, in words that are known to mean that.
    #[error(transparent)]
    No(EstimateError),
    /// Words that nobody has used before.
    #[error("{0}")]
    Strange(String),
}

/// Who is asked.
#[derive(Debug, Clone, Copy)]
struct Panel {
    configured: usize,
    /// How many have to agree about blocks.
    required: usize,
    /// The least that the transaction should need.
    least: u64,
    /// Nobody is left who might say something.
    all_in: bool,
}

/// How many times the smaller amount the larger one may be for the two to say the same: nodes
/// estimate on states that are a block apart, and by methods of their own.
const ALIKE: u64 = 2;

/// What follows from the words so far; `None` if more are needed.
///
/// Where several have to agree, two words of one kind decide: of two amounts that are alike the
/// larger one, and where they are not, the middle of three. Elsewhere one amount decides, unless it
/// is less than the transaction should need before anything is run. A no takes
/// two endpoints, or one where one is a quorum and nobody else says anything. Strange words decide
/// nothing where there are other endpoints: what cannot be estimated is set aside, and tried again.
/// Once nobody is left to ask, one amount is enough: what is concluded from the chain later does not
/// rest on it.
fn settle(heard: &[Word], panel: Panel) -> Option<Result<u64, EstimateError>> {
    let mut amounts: Vec<u64> = Vec::new();
    let (mut noes, mut strange) = (Vec::new(), Vec::new());
    for word in heard {
        match word {
            Word::Amount(gas) => amounts.push(*gas),
            Word::No(no) => noes.push(no),
            Word::Strange(words) => strange.push(words),
        }
    }
    amounts.sort_unstable();
    if noes.len() >= 2 && amounts.len() < noes.len() {
        return noes.pop().cloned().map(Err);
    }
    let several = panel.required > 1;
    match amounts[..] {
        [] => {}
        [gas] if panel.all_in || (!several && gas >= panel.least) => return Some(Ok(gas)),
        [_] => {}
        [low, high] if panel.all_in || high / ALIKE <= low => return Some(Ok(high)),
        [_, _] => {}
        _ => return Some(Ok(amounts[amounts.len() / 2])),
    }
    if !panel.all_in || !amounts.is_empty() {
        return None;
    }
    let alone = panel.configured == 1;
    match (noes.pop(), strange.pop()) {
        (Some(no), _) if !several => Some(Err(no.clone())),
        // Its word is all there is, and its caller has the transaction still.
        (None, Some(words)) if alone => Some(Err(EstimateError::Refused(words.clone()))),
        _ => None,
    }
}

const ABSURD: Bad = Bad { field: WHOLE, words: "an amount of gas that cannot be" };

/// What an endpoint's answer comes to; an error if it is no word about the transaction.
fn judge(answer: Answer, most: Option<u64>) -> Result<Word, String> {
    let check =
        |gas: U256| u64::try_from(gas).ok().filter(|gas| *gas <= i64::MAX as u64).ok_or(ABSURD);
    let error = match read_some_checked(answer, check) {
        Ok(gas) => {
            return match most.filter(|most| gas > *most) {
                Some(most) => Err(format!("answered {gas} gas, where a block has {most}")),
                None => Ok(Word::Amount(gas)),
            };
        }
        Err(error) => error,
    };
    match classify::refusal(&error) {
        Some(Refusal::Reverted { reason, data }) => {
            Ok(Word::No(EstimateError::Reverted { reason, data }))
        }
        Some(Refusal::Refused(why)) => Ok(Word::No(EstimateError::Refused(why))),
        Some(Refusal::Unrecognised(words)) => Ok(Word::Strange(words)),
        None => Err(error.to_string()),
    }
}

fn request(from: Address, payload: &Payload) -> Value {
    let mut request = json!({ "from": from, "value": payload.value });
    if let Some(to) = payload.to {
        request["to"] = json!(to);
    }
    if !payload.data.is_empty() {
        request["data"] = json!(payload.data);
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(gas: u64) -> Word {
        Word::Amount(gas)
    }

    fn no() -> Word {
        Word::No(refused())
    }

    fn refused() -> EstimateError {
        EstimateError::Refused("insufficient funds".to_owned())
    }

    fn strange() -> Word {
        Word::Strange("the oracle is out to lunch".to_owned())
    }

    fn panel(configured: usize, all_in: bool) -> Panel {
        let required = if configured > 2 { configured / 2 + 1 } else { 1 };
        Panel { configured, required, least: 21_000, all_in }
    }

    #[test]
    fn hole_23_no_endpoint_alone_says_what_a_transaction_needs() {
        let huge = i64::MAX as u64;
        // endpoints, what they said, and what follows while others may speak, and once none does
        for (configured, heard, so_far, at_last) in [
            (1, vec![amount(50_000)], Some(Ok(50_000)), Some(Ok(50_000))),
            (2, vec![amount(50_000)], Some(Ok(50_000)), Some(Ok(50_000))),
            // Less than it needs before anything is run: the other one is asked.
            (2, vec![amount(20_999)], None, Some(Ok(20_999))),
            (2, vec![amount(20_999), amount(50_000)], None, Some(Ok(50_000))),
            (3, vec![amount(50_000)], None, Some(Ok(50_000))),
            (3, vec![amount(50_000), amount(51_000)], Some(Ok(51_000)), Some(Ok(51_000))),
            (3, vec![amount(51_000), amount(50_000)], Some(Ok(51_000)), Some(Ok(51_000))),
            (3, vec![amount(21_000), amount(50_000)], None, Some(Ok(50_000))),
            (
                3,
                vec![amount(21_000), amount(50_000), amount(51_000)],
                Some(Ok(50_000)),
                Some(Ok(50_000)),
            ),
            (
                3,
                vec![amount(huge), amount(50_000), amount(51_000)],
                Some(Ok(51_000)),
                Some(Ok(51_000)),
            ),
        ] {
            assert_eq!(settle(&heard, panel(configured, false)), so_far, "{configured} {heard:?}");
            assert_eq!(settle(&heard, panel(configured, true)), at_last, "{configured} {heard:?}");
        }
    }

    #[test]
    fn hole_21_one_bad_endpoint_of_several_has_nothing_refused() {
        let refuses = || Some(Err(refused()));
        let in_its_words =
            || Some(Err(EstimateError::Refused("the oracle is out to lunch".to_owned())));
        for (configured, heard, so_far, at_last) in [
            (1, vec![no()], None, refuses()),
            (1, vec![strange()], None, in_its_words()),
            // Of two, one is a quorum while the other says nothing.
            (2, vec![no()], None, refuses()),
            (2, vec![no(), no()], refuses(), refuses()),
            (2, vec![no(), amount(50_000)], Some(Ok(50_000)), Some(Ok(50_000))),
            (2, vec![strange()], None, None),
            (2, vec![strange(), amount(50_000)], Some(Ok(50_000)), Some(Ok(50_000))),
            (2, vec![strange(), strange()], None, None),
            (3, vec![no()], None, None),
            (3, vec![strange()], None, None),
            (3, vec![strange(), strange(), strange()], None, None),
            (3, vec![no(), strange()], None, None),
            (3, vec![no(), amount(50_000)], None, Some(Ok(50_000))),
            (3, vec![no(), amount(50_000), amount(50_000)], Some(Ok(50_000)), Some(Ok(50_000))),
            (3, vec![amount(50_000), no(), no()], refuses(), refuses()),
            (3, vec![no(), no()], refuses(), refuses()),
        ] {
            assert_eq!(settle(&heard, panel(configured, false)), so_far, "{configured} {heard:?}");
            assert_eq!(settle(&heard, panel(configured, true)), at_last, "{configured} {heard:?}");
        }
    }

    #[test]
    fn hole_23_an_amount_above_a_blocks_is_no_answer() {
        let told =
            |gas: u64| Ok(serde_json::value::to_raw_value(&format!("{gas:#x}")).unwrap().into());
        for (gas, most, is_word) in [
            (30_000_000, Some(30_000_000), true),
            (30_000_001, Some(30_000_000), false),
            (30_000_001, None, true),
            (u64::MAX, None, false),
        ] {
            assert_eq!(judge(told(gas), most).is_ok(), is_word, "{gas} {most:?}");
        }
    }

    #[test]
    fn hole_42_one_endpoint_of_several_does_not_say_what_a_block_has() {
        let of = |middle, agreed| Some(BlockGasLimit { middle, agreed });
        type Case<'a> = (&'a [u64], usize, usize, Option<BlockGasLimit>);
        let cases: [Case<'_>; 12] = [
            (&[], 1, 1, None),
            (&[0], 1, 1, None),
            (&[30], 1, 1, of(30, Some(30))),
            (&[30], 1, 2, of(30, None)),
            (&[0, 30], 1, 2, of(30, None)),
            (&[21, 30], 1, 2, of(30, Some(30))),
            (&[30], 2, 3, None),
            (&[21, 30], 2, 3, of(30, Some(30))),
            (&[21, 30, 31], 2, 3, of(30, Some(30))),
            (&[21, 22, 30], 3, 4, of(22, Some(30))),
            (&[21, 22], 2, 4, of(22, None)),
            (&[22, 30, 21, 31], 3, 4, of(30, Some(30))),
        ];
        for (told, required, configured, expected) in cases {
            let found = BlockGasLimit::of(told.to_vec(), required, configured);
            assert_eq!(found, expected, "{told:?} {required} {configured}");
        }
    }

    #[test]
    fn words_are_those_of_the_endpoint_that_they_begin_with() {
        for (words, shown, is_its) in [
            ("rpc:443: 5 gas", "rpc:443", true),
            ("rpc:443#2: 5 gas", "rpc:443", false),
            ("rpc:443#2: 5 gas", "rpc:443#2", true),
            ("rpc:4430: 5 gas", "rpc:443", false),
            ("rpc:443", "rpc:443", false),
        ] {
            assert_eq!(is_of(words, shown), is_its, "{words} {shown}");
        }
    }

    #[test]
    fn hole_37_one_endpoint_of_several_does_not_say_which_rules_a_chain_has() {
        let none = GasRules::default();
        let shanghai = GasRules { counts_initcode: true, ..none };
        let old = GasRules { has_dear_data: true, ..none };
        let all = GasRules::ALL;
        type Case<'a> = (&'a [GasRules], usize, GasRules);
        let cases: [Case<'_>; 11] = [
            (&[], 1, none),
            (&[old, none], 2, none),
            (&[old, old, none], 3, old),
            (&[shanghai], 1, shanghai),
            (&[all], 2, none),
            (&[all, none], 2, none),
            (&[all, shanghai], 2, shanghai),
            (&[all], 3, none),
            (&[all, all], 3, all),
            (&[all, all, none], 3, all),
            (&[all, shanghai, none], 3, shanghai),
        ];
        for (shown, configured, expected) in cases {
            let agreed = agreed_rules(shown.iter().copied(), configured);
            assert_eq!(agreed, expected, "{shown:?} of {configured}");
        }
    }
}
