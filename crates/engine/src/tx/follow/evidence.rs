//! What the endpoints agree on about the blocks that decide something.
//!
//! Nothing ends a transaction, and nothing takes an end back, on the word of one endpoint where
//! there are several. Each is asked for its block at that height, and for the receipts in it. That
//! costs each endpoint two questions for every block in which something is decided, however much is.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use futures::StreamExt;
use stile_chain::Block;
use stile_domain::{Address, B256, Decision, Header, Lane, Nonce, Quorum, Receipt, Verdict, Votes};

use crate::metrics;
use crate::tx::track::Track;

/// Blocks on top of one that endpoints may still differ about without anybody being wrong: two
/// blocks at one height are made now and then.
pub(super) const SETTLED: u64 = 2;

/// Blocks whose receipts are asked for at once.
const AT_ONCE: usize = 8;

/// What is to be concluded from a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) height: u64,
    pub(crate) block: B256,
    pub(crate) subject: Subject,
}

/// What is in the block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A transaction, with this receipt: how it went, if that is told, and the contract that it made.
    /// `creates`: the one that it makes if it succeeds, for endpoints that name none.
    Mined {
        tx_hash: B256,
        status: Option<bool>,
        contract: Option<Address>,
        creates: Option<Address>,
    },
    /// A transaction that used up a lane's nonce; any, if its hash is not known.
    Used { lane: Lane, nonce: Nonce, tx_hash: Option<B256> },
    /// Whatever is in it: it is canonical, and so on top of others.
    OnTop,
}

/// What an endpoint says about a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// Another block is at that height.
    OtherBlock(B256),
    /// It is not in the block.
    NotInBlock,
    /// It is in the block, went this way, if that is told, and made this contract.
    Mined { status: Option<bool>, contract: Option<Address> },
    /// The nonce is used up by it.
    Used,
    /// It is the block at that height.
    OnTop,
}

/// What the endpoints decided about a claim.
#[derive(Debug, Clone)]
pub(crate) struct Ruling {
    pub(crate) decision: Decision<Word>,
    /// The receipt by the word of those who won. What there is no vote on is what most of them say.
    pub(crate) receipt: Option<Receipt>,
    /// What the endpoint says that is followed.
    pub(crate) followed: Option<Word>,
}

impl Claim {
    /// The word of whoever agrees.
    fn word(&self) -> Word {
        match self.subject {
            Subject::Mined { status, contract, creates, .. } => {
                Word::mined(status, contract, creates)
            }
            Subject::Used { .. } => Word::Used,
            Subject::OnTop => Word::OnTop,
        }
    }

    /// What an endpoint says, by its block at that height and its receipt. Nothing if it has no such
    /// block, or has the block and not the receipt yet.
    fn said(&self, block: Option<&Block>, receipts: &[Receipt]) -> Option<Word> {
        let block = block?;
        if block.header.hash != self.block {
            return Some(Word::OtherBlock(block.header.hash));
        }
        match &self.subject {
            Subject::Mined { tx_hash, creates, .. } => {
                if !block.transactions.iter().any(|tx| tx.hash == *tx_hash) {
                    return Some(Word::NotInBlock);
                }
                let receipt = receipts.iter().find(|receipt| receipt.tx_hash == *tx_hash)?;
                Some(Word::mined(receipt.status, receipt.contract(), *creates))
            }
            Subject::Used { lane, nonce, tx_hash } => {
                let used = block.transactions.iter().any(|tx| {
                    let is_it = tx_hash.is_none_or(|hash| hash == tx.hash);
                    match tx.sender() {
                        Some(sender) => is_it && sender == (lane.signer, *nonce),
                        // The endpoint tells no more than hashes.
                        None => is_it && tx_hash.is_some(),
                    }
                });
                Some(if used { Word::Used } else { Word::NotInBlock })
            }
            Subject::OnTop => Some(Word::OnTop),
        }
    }
}

/// Has the endpoints decide about claims, in their order. `followed` is the place of the endpoint
/// that is followed.
pub(crate) async fn rule(track: &Track, claims: &[Claim], followed: usize) -> Vec<Ruling> {
    let heights: BTreeSet<u64> = claims.iter().map(|claim| claim.height).collect();
    let heights: Vec<u64> = heights.into_iter().collect();
    let whole = claims.iter().any(|claim| matches!(claim.subject, Subject::Used { .. }));
    let ballots = track.pool.ballots(&heights, whole).await;
    let receipts = receipts(track, claims, &ballots).await;
    let quorum = track.pool.quorum();
    let mut counted: HashSet<u64> = HashSet::new();
    let mut rulings = Vec::with_capacity(claims.len());
    for claim in claims {
        let none = Vec::new();
        let of_block = receipts.get(&(claim.height, claim.block));
        let of = |place: usize| of_block.and_then(|by| by.get(place)).unwrap_or(&none);
        let said: Vec<Option<Word>> = ballots
            .blocks(claim.height)
            .enumerate()
            .map(|(place, block)| claim.said(block, of(place)))
            .collect();
        let (decision, said) = decide(quorum, claim.word(), said);
        let holds = match &decision {
            Decision::Agreed => Some(claim.word()),
            Decision::Outvoted(word) => Some(*word),
            Decision::Open(_) => None,
        };
        if counted.insert(claim.height) {
            count(track, &said, holds.unwrap_or(claim.word()));
        }
        if let Some(holds) = holds {
            blame(track, claim, &said, holds);
        }
        let receipt = match (claim.subject.clone(), holds) {
            (Subject::Mined { tx_hash, .. }, Some(Word::Mined { .. })) => {
                let own = |place| of(place).iter().find(|receipt| receipt.tx_hash == tx_hash);
                let told = said.iter().enumerate().filter(|(_, word)| **word == holds);
                let mut told: Vec<(usize, &Receipt)> =
                    told.filter_map(|(place, _)| Some((place, own(place)?))).collect();
                // Where no more than half say the same, what was told stays so.
                told.sort_by_key(|(place, _)| *place != followed);
                blame_gas(track, claim.height, &told);
                let told = told.into_iter().map(|(_, receipt)| receipt).collect::<Vec<_>>();
                most_say(&told).map(|receipt| match holds {
                    // What one of them alone says about how it went is nobody's word.
                    Some(Word::Mined { status: status @ Some(true), contract }) => {
                        Receipt { status, contract_address: contract, ..receipt }
                    }
                    Some(Word::Mined { status, .. }) => Receipt { status, ..receipt },
                    _ => receipt,
                })
            }
            _ => None,
        };
        let followed = said.get(followed).copied().flatten();
        rulings.push(Ruling { decision, receipt, followed });
    }
    rulings
}

/// What the endpoints decide about a claim, and what each of them says of it then.
///
/// Some do not say how an execution ended. Those who do decide it by the usual rules, as if the
/// others had said nothing. Where they are too few, what is decided is that it was mined: how it
/// ended is not known. Where they contradict each other, nothing is.
fn decide(
    quorum: Quorum,
    claimed: Word,
    said: Vec<Option<Word>>,
) -> (Decision<Word>, Vec<Option<Word>>) {
    if !said.iter().flatten().any(Word::is_untold) && !claimed.is_untold() {
        return (quorum.decide(&claimed, &said), said);
    }
    let telling: Vec<Word> = said.iter().flatten().copied().filter(Word::is_telling).collect();
    let as_told: Vec<Option<Word>> =
        said.iter().map(|word| word.filter(|word| !word.is_untold())).collect();
    let holds = |word: &&Word| quorum.verdict(Votes::on(*word, &as_told)) == Verdict::Agreed;
    if let Some(word) = telling.iter().find(holds) {
        let decision = match *word == claimed {
            true => Decision::Agreed,
            false => Decision::Outvoted(*word),
        };
        return (decision, as_told);
    }
    if telling.windows(2).any(|two| two[0].status() != two[1].status()) {
        return (Decision::Open(Verdict::Contradicted), said);
    }
    let said: Vec<Option<Word>> = said.iter().map(|word| word.map(Word::untold)).collect();
    let decision = match quorum.decide(&claimed.untold(), &said) {
        Decision::Agreed if !claimed.is_untold() => Decision::Outvoted(claimed.untold()),
        decision => decision,
    };
    (decision, said)
}

impl Word {
    /// It was mined. Who names no contract where there has to be one means that one.
    fn mined(status: Option<bool>, contract: Option<Address>, creates: Option<Address>) -> Self {
        let creates = creates.filter(|_| status != Some(false));
        Self::Mined { status, contract: contract.or(creates) }
    }

    /// How it went, if it says so.
    fn status(&self) -> Option<bool> {
        match self {
            Self::Mined { status, .. } => *status,
            _ => None,
        }
    }

    /// It was mined, and how it went is told.
    fn is_telling(&self) -> bool {
        matches!(self, Self::Mined { status: Some(_), .. })
    }

    /// It was mined, and how it went is not told.
    fn is_untold(&self) -> bool {
        matches!(self, Self::Mined { status: None, .. })
    }

    /// The same without how it went.
    fn untold(self) -> Self {
        match self {
            Self::Mined { contract, .. } => Self::Mined { status: None, contract },
            word => word,
        }
    }
}

/// One receipt of several that agree on what there is a vote on. The rest of it is what most of them
/// say; where no more than half say the same, it is what the first of them says.
fn most_say(told: &[&Receipt]) -> Option<Receipt> {
    let mut receipt = (*told.first()?).clone();
    // Some nodes do not tell the gas.
    let gas: Vec<u64> = told.iter().map(|it| it.gas_used).filter(|gas| *gas > 0).collect();
    if let Some(gas) = majority(&gas).or(gas.first().copied()) {
        receipt.gas_used = gas;
    }
    if let Some(index) = majority(&told.iter().map(|it| it.transaction_index).collect::<Vec<_>>()) {
        receipt.transaction_index = index;
    }
    // Some nodes do not tell the price.
    let prices = told.iter().map(|it| it.effective_gas_price).filter(|price| *price > 0);
    let prices: Vec<u128> = prices.collect();
    if let Some(price) = majority(&prices).or(prices.first().copied()) {
        receipt.effective_gas_price = price;
    }
    Some(receipt)
}

/// What more than half say.
fn majority<T: PartialEq + Copy>(told: &[T]) -> Option<T> {
    let most = |word: &&T| told.iter().filter(|other| *other == *word).count() * 2 > told.len();
    told.iter().find(most).copied()
}

/// Names whoever tells of another amount of gas than most of those that tell it.
fn blame_gas(track: &Track, height: u64, told: &[(usize, &Receipt)]) {
    let told = told.iter().filter(|(_, receipt)| receipt.gas_used > 0);
    let gas: Vec<u64> = told.clone().map(|(_, receipt)| receipt.gas_used).collect();
    let Some(most) = majority(&gas) else { return };
    for (place, receipt) in told.filter(|(_, receipt)| receipt.gas_used != most) {
        let (used, hash) = (receipt.gas_used, receipt.tx_hash);
        let words = format!(
            "says that {hash} used {used} gas in block {height}, and the others that it used {most}"
        );
        name(track, *place, &words);
    }
}

/// The receipts of each block, by each of the endpoints that have the block.
async fn receipts(
    track: &Track,
    claims: &[Claim],
    ballots: &stile_chain::Ballots,
) -> BTreeMap<(u64, B256), Vec<Vec<Receipt>>> {
    let mut wanted: BTreeMap<(u64, B256), Vec<B256>> = BTreeMap::new();
    for claim in claims {
        if let Subject::Mined { tx_hash, .. } = claim.subject {
            wanted.entry((claim.height, claim.block)).or_default().push(tx_hash);
        }
    }
    let asked = wanted.into_iter().map(async |((height, hash), wanted)| {
        let has: Vec<bool> =
            ballots.hashes(height).iter().map(|said| *said == Some(hash)).collect();
        // Only place and hash of it are looked at.
        let block = Header { height, hash, parent: B256::ZERO };
        ((height, hash), track.pool.receipts_by_each(&block, &wanted, &has).await)
    });
    futures::stream::iter(asked.collect::<Vec<_>>()).buffer_unordered(AT_ONCE).collect().await
}

/// Has the endpoints decide which blocks are canonical at some heights, in their order, with the
/// word of the endpoint that is followed.
pub(super) async fn canonical(
    track: &Track,
    claims: &[(u64, B256)],
    followed: usize,
) -> Vec<(Decision<B256>, Option<B256>)> {
    let heights: BTreeSet<u64> = claims.iter().map(|(height, _)| *height).collect();
    let heights: Vec<u64> = heights.into_iter().collect();
    let ballots = track.pool.ballots(&heights, false).await;
    let mut decided = Vec::with_capacity(claims.len());
    for (height, hash) in claims {
        let said = ballots.hashes(*height);
        let decision = track.pool.quorum().decide(hash, &said);
        let holds = match &decision {
            Decision::Agreed => Some(*hash),
            Decision::Outvoted(other) => Some(*other),
            Decision::Open(_) => None,
        };
        count(track, &said, holds.unwrap_or(*hash));
        if let Some(holds) = holds {
            for (place, word) in said.iter().enumerate() {
                if let Some(other) = word.filter(|word| *word != holds) {
                    tell(track, place, *height, &differs(*height, other, holds), true);
                }
            }
        }
        decided.push((decision, said.get(followed).copied().flatten()));
    }
    decided
}

fn differs(height: u64, other: B256, holds: B256) -> String {
    format!("has {other} as block {height}, where the others have {holds}")
}

/// Counts who agreed with what holds.
fn count<T: PartialEq + Copy>(track: &Track, said: &[Option<T>], holds: T) {
    for (status, word) in track.pool.endpoints().iter().zip(said) {
        let vote = match word {
            Some(word) if *word == holds => "agree",
            Some(_) => "disagree",
            None => "silent",
        };
        metrics::vote(track.pool.chain(), &status.shown, vote);
    }
}

/// Names whoever said something else than what holds.
fn blame(track: &Track, claim: &Claim, said: &[Option<Word>], holds: Word) {
    let height = claim.height;
    for (place, word) in said.iter().enumerate() {
        let Some(word) = word.filter(|word| *word != holds) else { continue };
        let (words, is_fork) = match (word, holds) {
            (Word::OtherBlock(other), Word::OtherBlock(holds)) => {
                (differs(height, other, holds), true)
            }
            (Word::OtherBlock(other), _) => (differs(height, other, claim.block), true),
            (_, Word::OtherBlock(holds)) => (differs(height, claim.block, holds), true),
            (Word::NotInBlock, _) => {
                (format!("leaves out of block {height} what the others have there"), false)
            }
            (Word::Mined { status, contract }, Word::Mined { status: holds, .. })
                if status == holds =>
            {
                let which = claim.tx_hash().map_or_else(String::new, |hash| format!(" {hash}"));
                let made = contract.map_or("no contract".to_owned(), |made| made.to_string());
                let words = format!(
                    "says that{which} made {made} in block {height}, and the others that it did not"
                );
                (words, false)
            }
            (Word::Mined { status, .. }, Word::Mined { .. }) => {
                let went = match status {
                    Some(true) => "succeeded",
                    Some(false) => "failed",
                    None => "went in a way that it does not tell",
                };
                let which = claim.tx_hash().map_or_else(String::new, |hash| format!(" {hash}"));
                let words = format!(
                    "says that{which} {went} in block {height}, and the others that it did not"
                );
                (words, false)
            }
            (Word::Mined { .. } | Word::Used | Word::OnTop, _) => {
                let which = claim.tx_hash().map_or("a transaction".to_owned(), |h| h.to_string());
                (format!("shows {which} in block {height}, where the others do not"), false)
            }
        };
        tell(track, place, height, &words, is_fork);
    }
}

/// Names an endpoint. What endpoints say about the newest blocks may still change by itself.
fn tell(track: &Track, place: usize, height: u64, words: &str, is_fork: bool) {
    if !is_fork || is_settled(track, height) {
        name(track, place, words);
    }
}

/// Names an endpoint and sets it aside for a while.
pub(super) fn name(track: &Track, place: usize, words: &str) {
    if let Some(status) = track.pool.endpoints().get(place)
        && status.contradiction.is_none()
    {
        tracing::warn!(chain = %track.pool.chain(), endpoint = status.shown, words,
              "an endpoint contradicts the others or itself, and is not used for a while");
    }
    track.pool.contradicted(place, words, true);
}

/// Whether endpoints that differ about a height contradict each other, and are not only a moment
/// apart.
pub(super) fn is_settled(track: &Track, height: u64) -> bool {
    track.pool.comparable_height().is_some_and(|newest| height + SETTLED <= newest)
}

impl Claim {
    fn tx_hash(&self) -> Option<B256> {
        match self.subject {
            Subject::Mined { tx_hash, .. } => Some(tx_hash),
            Subject::Used { tx_hash, .. } => tx_hash,
            Subject::OnTop => None,
        }
    }
}

/// What is left open, in words.
pub(super) fn open_words(track: &Track, verdict: Verdict, height: u64) -> String {
    let quorum = track.pool.quorum();
    let (required, configured) = (quorum.required(), quorum.configured());
    let statuses = track.pool.endpoints();
    match verdict {
        Verdict::Contradicted => format!(
            "the endpoints contradict each other about block {height}, and no majority of the {configured} outvotes the rest"
        ),
        Verdict::TooFewVoters | Verdict::Agreed => {
            let answering = statuses.iter().filter(|status| status.answers).count();
            let silent = statuses
                .iter()
                .filter(|status| !status.answers || status.head.is_none_or(|head| head < height));
            let silent: Vec<String> = silent
                .map(|status| match (status.answers, status.head) {
                    (true, Some(head)) => format!("{} is at block {head}", status.shown),
                    _ => format!("{} does not answer", status.shown),
                })
                .collect();
            format!(
                "{required} of {configured} endpoints have to agree about block {height}, and too few say anything: {answering} answer ({})",
                silent.join("; ")
            )
        }
    }
}

/// Whether two at least have this block, whatever the quorum is.
pub(super) async fn two_agree(track: &Track, height: u64, hash: B256) -> bool {
    let said = track.pool.ballots(&[height], false).await.hashes(height);
    Votes::on(&hash, &said).agree >= 2
}

#[cfg(test)]
mod tests {
    use stile_chain::Sighting;
    use stile_domain::{ChainId, GasRules};

    use super::*;

    const TX: B256 = B256::repeat_byte(7);
    const OURS: B256 = B256::repeat_byte(1);
    const OTHER: B256 = B256::repeat_byte(2);

    fn block(hash: B256, transactions: Vec<Sighting>) -> Block {
        let header = Header { height: 5, hash, parent: B256::ZERO };
        let rules = GasRules::default();
        Block { header, transactions, timestamp: 0, base_fee: None, gas_limit: None, rules }
    }

    fn receipt(status: bool) -> Receipt {
        Receipt {
            tx_hash: TX,
            block_number: 5,
            block_hash: OURS,
            transaction_index: 0,
            status: Some(status),
            gas_used: 1,
            effective_gas_price: 1,
            contract_address: None,
        }
    }

    #[test]
    fn hole_23_what_an_endpoint_says_about_a_receipt() {
        let subject =
            Subject::Mined { tx_hash: TX, status: Some(true), contract: None, creates: None };
        let claim = Claim { height: 5, block: OURS, subject };
        let with = block(OURS, vec![Sighting::of_nobody(TX)]);
        let without = block(OURS, Vec::new());
        let other = block(OTHER, vec![Sighting::of_nobody(TX)]);
        let mined = |status, contract| Word::Mined { status: Some(status), contract };
        let contract_address = Some(Address::repeat_byte(4));
        let made = Receipt { contract_address, ..receipt(true) };
        let table = [
            (None, vec![], None),
            (Some(&other), vec![receipt(true)], Some(Word::OtherBlock(OTHER))),
            (Some(&without), vec![receipt(true)], Some(Word::NotInBlock)),
            (Some(&with), vec![], None),
            (Some(&with), vec![receipt(true)], Some(mined(true, None))),
            (Some(&with), vec![receipt(false)], Some(mined(false, None))),
            (Some(&with), vec![made.clone()], Some(mined(true, made.contract_address))),
            // None stands where the execution was undone, whatever the endpoint says.
            (
                Some(&with),
                vec![Receipt { status: Some(false), ..made.clone() }],
                Some(mined(false, None)),
            ),
        ];
        for (block, receipts, word) in table {
            assert_eq!(claim.said(block, &receipts), word, "{block:?} {receipts:?}");
        }
        assert_eq!(claim.word(), mined(true, None));
    }

    #[test]
    fn hole_37_those_who_say_how_it_ended_decide_it_and_the_others_that_it_was_mined() {
        let word = |status| Word::Mined { status, contract: None };
        let (good, bad, untold) = (word(Some(true)), word(Some(false)), word(None));
        let other = Word::OtherBlock(OTHER);
        let contradicted = Decision::Open(Verdict::Contradicted);
        type Case<'a> = (usize, Word, &'a [Option<Word>], Decision<Word>);
        let table: [Case<'_>; 17] = [
            // One of one, one of two.
            (1, untold, &[Some(untold)], Decision::Agreed),
            (2, untold, &[Some(untold), None], Decision::Agreed),
            (2, untold, &[Some(untold), Some(untold)], Decision::Agreed),
            (2, untold, &[Some(untold), Some(good)], Decision::Outvoted(good)),
            (2, good, &[Some(untold), Some(good)], Decision::Agreed),
            (2, bad, &[Some(bad), Some(untold)], Decision::Agreed),
            (2, good, &[Some(good), Some(bad)], contradicted.clone()),
            (2, untold, &[Some(untold), Some(other)], contradicted.clone()),
            // Two of three.
            (3, untold, &[Some(untold), Some(good), Some(good)], Decision::Outvoted(good)),
            (3, good, &[Some(untold), Some(good), Some(good)], Decision::Agreed),
            (3, untold, &[Some(untold), Some(untold), Some(good)], Decision::Agreed),
            // Nobody's lone word is how it ended.
            (3, good, &[Some(untold), Some(untold), Some(good)], Decision::Outvoted(untold)),
            (3, untold, &[Some(untold), Some(good), Some(bad)], contradicted),
            (3, untold, &[Some(untold), None, None], Decision::Open(Verdict::TooFewVoters)),
            (3, untold, &[Some(untold), Some(other), Some(other)], Decision::Outvoted(other)),
            (3, untold, &[Some(untold), Some(good), Some(other)], Decision::Agreed),
            (3, good, &[Some(good), Some(good), Some(bad)], Decision::Agreed),
        ];
        for (configured, claimed, said, expected) in table {
            let quorum = Quorum::of(configured, None).unwrap();
            let (decision, _) = decide(quorum, claimed, said.to_vec());
            assert_eq!(decision, expected, "{configured} {claimed:?} {said:?}");
        }
        // Who says nothing about it contradicts nobody.
        let quorum = Quorum::of(3, None).unwrap();
        let (_, said) = decide(quorum, good, vec![Some(untold), Some(good), Some(good)]);
        assert_eq!(said, [None, Some(good), Some(good)]);
    }

    #[test]
    fn hole_37_who_names_no_contract_means_the_one_that_is_made() {
        let made = Address::repeat_byte(4);
        for (status, told, creates, expected) in [
            (Some(true), None, Some(made), Some(made)),
            (None, None, Some(made), Some(made)),
            (Some(false), None, Some(made), None),
            (Some(true), None, None, None),
            // A chain that makes addresses by rules of its own.
            (Some(true), Some(Address::ZERO), Some(made), Some(Address::ZERO)),
        ] {
            let contract = expected;
            assert_eq!(Word::mined(status, told, creates), Word::Mined { status, contract });
        }
    }

    #[test]
    fn hole_23_what_a_receipt_says_besides_is_what_most_say() {
        let of = |gas_used, transaction_index, effective_gas_price| Receipt {
            gas_used,
            transaction_index,
            effective_gas_price,
            ..receipt(true)
        };
        let say = |told: &[Receipt]| most_say(&told.iter().collect::<Vec<_>>());
        assert_eq!(say(&[]), None);
        let (honest, liar) = (of(21_000, 3, 9), of(1, 7, 1));
        assert_eq!(
            say(std::slice::from_ref(&liar)),
            Some(liar.clone()),
            "nobody else says anything"
        );
        assert_eq!(say(&[liar.clone(), honest.clone()]), Some(liar.clone()), "one against one");
        for place in 0..3 {
            let mut told = vec![honest.clone(), honest.clone()];
            told.insert(place, liar.clone());
            assert_eq!(say(&told), Some(honest.clone()), "{place}");
        }
        // Each by itself: and who does not tell the price, or the gas, has no word.
        let told = [of(21_000, 7, 0), of(1, 3, 9), of(21_000, 3, 0)];
        assert_eq!(say(&told), Some(honest.clone()));
        assert_eq!(say(&[of(0, 3, 9), honest.clone(), of(0, 3, 9)]), Some(honest));
    }

    #[test]
    fn hole_23_what_an_endpoint_says_about_a_nonce() {
        let lane = Lane::new(ChainId::new(1).unwrap(), Address::repeat_byte(3));
        let used = |tx_hash| Claim {
            height: 5,
            block: OURS,
            subject: Subject::Used { lane, nonce: 4, tx_hash },
        };
        let tx = |from, nonce| block(OURS, vec![Sighting { hash: TX, from, nonce }]);
        let other = Address::repeat_byte(9);
        let hash_only = block(OURS, vec![Sighting::of_nobody(TX)]);
        let table = [
            (Some(TX), tx(lane.signer, 4), Word::Used),
            (Some(TX), tx(lane.signer, 5), Word::NotInBlock),
            // Somebody's transaction, shown under another name.
            (Some(TX), tx(other, 4), Word::NotInBlock),
            (Some(OTHER), tx(lane.signer, 4), Word::NotInBlock),
            (None, tx(lane.signer, 4), Word::Used),
            (None, tx(other, 4), Word::NotInBlock),
            (Some(TX), hash_only.clone(), Word::Used),
            (None, hash_only, Word::NotInBlock),
        ];
        for (hash, block, word) in table {
            assert_eq!(used(hash).said(Some(&block), &[]), Some(word), "{hash:?} {block:?}");
        }
    }
}
