//! What each endpoint says about a block.
//!
//! Everybody who answers is asked, those set aside too: an endpoint that is behind has a vote at the
//! heights it has. One that is away has none, and nobody waits for it.

use std::collections::HashMap;
use std::sync::Arc;

use alloy::primitives::B256;
use stile_domain::{Header, HeaderWindow, Heads, Quorum, Receipt, Votes};

use crate::blocks::{Block, With, at_call, read_at};
use crate::endpoint::Endpoint;
use crate::view::WHOLE_BLOCKS;
use crate::{ChainPool, View};

/// What each of a chain's endpoints has at some heights, in the order of the configuration.
#[derive(Debug, Clone)]
pub struct Ballots(Vec<Ballot>);

#[derive(Debug, Clone)]
struct Ballot {
    endpoint: String,
    blocks: HashMap<u64, Block>,
}

impl Ballots {
    /// The hash that each endpoint has at a height; `None` for those that say nothing.
    pub fn hashes(&self, height: u64) -> Vec<Option<B256>> {
        self.blocks(height).map(|block| block.map(|block| block.header.hash)).collect()
    }

    /// The block that each endpoint has at a height; `None` for those that say nothing.
    pub fn blocks(&self, height: u64) -> impl Iterator<Item = Option<&Block>> {
        self.0.iter().map(move |ballot| ballot.blocks.get(&height))
    }

    /// Host and port of each endpoint.
    pub fn endpoints(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|ballot| ballot.endpoint.as_str())
    }
}

impl ChainPool {
    /// How many of the endpoints have to agree.
    pub fn quorum(&self) -> Quorum {
        self.quorum
    }

    /// What the endpoints say about a block. An endpoint that has not come that far, or does not
    /// answer, has no vote.
    pub async fn votes(&self, height: u64, hash: B256) -> Votes {
        // Whoever is the first to ask finds nobody there, for want of a look.
        let _ = self.usable().await;
        let ballots = self.ballots(&[height], false).await;
        Votes::on(&hash, &ballots.hashes(height))
    }

    /// Asks every endpoint that answers for its blocks at these heights, with their transactions or
    /// only their hashes.
    pub async fn ballots(&self, heights: &[u64], transactions: bool) -> Ballots {
        let (with, limit) = match transactions {
            true => (With::Transactions, self.batch_limit().min(WHOLE_BLOCKS)),
            false => (With::Hashes, self.batch_limit()),
        };
        let asked = self.endpoints.iter().map(async |endpoint| match endpoint.answers() {
            true => blocks_at(endpoint, heights, with, limit).await,
            false => HashMap::new(),
        });
        let is_settled = |heard: &[Option<HashMap<u64, Block>>]| {
            heights.iter().all(|height| {
                let said = heard.iter().flatten().map(|blocks| blocks.get(height));
                self.quorum.is_settled(&said.collect::<Vec<_>>())
            })
        };
        let heard = self.hear(asked, is_settled).await;
        let ballot = |(endpoint, blocks): (&Arc<Endpoint>, Option<HashMap<u64, Block>>)| {
            let blocks = blocks.unwrap_or_default();
            Ballot { endpoint: endpoint.shown().to_owned(), blocks }
        };
        Ballots(self.endpoints.iter().zip(heard).map(ballot).collect())
    }

    /// The receipts of these transactions in a block, by the word of each endpoint that `has` the
    /// block; of the others, of those that do not answer, and of those that are left behind, none.
    /// One question to each endpoint, however many receipts are wanted.
    pub async fn receipts_by_each(
        &self,
        block: &Header,
        wanted: &[B256],
        has: &[bool],
    ) -> Vec<Vec<Receipt>> {
        let asked = self.endpoints.iter().enumerate().map(async |(place, endpoint)| {
            // Whoever has just not answered is not asked about the next block, either.
            match has.get(place) == Some(&true) && endpoint.answers() {
                true => {
                    let view = View::new(self, place, Arc::clone(endpoint), *block);
                    view.receipts_in(block, wanted).await.unwrap_or_default()
                }
                false => Vec::new(),
            }
        });
        let is_settled = |heard: &[Option<Vec<Receipt>>]| {
            wanted.iter().all(|hash| {
                let said = heard.iter().flatten();
                let said = said.map(|it| it.iter().find(|receipt| receipt.tx_hash == *hash));
                // Who does not say how it ended is no reason not to hear who does.
                let said = said.map(|it| it.filter(|receipt| receipt.status.is_some()));
                self.quorum.is_settled(&said.collect::<Vec<_>>())
            })
        };
        let heard = self.hear(asked, is_settled).await;
        heard.into_iter().map(Option::unwrap_or_default).collect()
    }

    /// How far the chain has come: its newest block, and with `tags` also up to where a quorum calls
    /// it safe and finalized. A tag on another block than is known there is nobody's word.
    pub async fn heads(&self, latest: u64, known: &HeaderWindow, tags: bool) -> Heads {
        let mut heads = Heads { latest, safe: None, finalized: None };
        if !tags {
            return heads;
        }
        // Everybody who answers counts, late or not: it may be another's lie that makes it late. Where
        // one is a quorum, those that stand still do not hold up another one that goes on.
        let rises = |endpoint: &Endpoint| endpoint.progress().is_some_and(|(_, rises)| rises);
        let answering = || self.endpoints.iter().filter(|endpoint| endpoint.answers());
        let goes_on = self.quorum.required() == 1 && answering().any(|endpoint| rises(endpoint));
        let counts = |endpoint: &Endpoint| endpoint.answers() && (rises(endpoint) || !goes_on);
        let asked = self.endpoints.iter().map(async |endpoint| match counts(endpoint) {
            true => endpoint.tagged().await,
            false => [None; 2],
        });
        // Whoever comes later can only raise what so many say.
        let enough = self.quorum.required().max(2);
        let is_settled = |heard: &[Option<[Option<Header>; 2]>]| {
            heard.iter().flatten().filter(|said| said.iter().all(Option::is_some)).count() >= enough
        };
        let said: Vec<_> = self.hear(asked, is_settled).await.into_iter().flatten().collect();
        let fits = |header: &&Header| {
            header.height <= latest
                && known.hash_at(header.height).is_none_or(|hash| hash == header.hash)
        };
        let up_to = |tag: usize| {
            let said = said.iter().filter_map(|said| said[tag].as_ref()).filter(fits);
            let heights: Vec<u64> = said.map(|header| header.height).collect();
            self.quorum.confirmed_up_to(&heights)
        };
        (heads.safe, heads.finalized) = (up_to(0), up_to(1));
        heads
    }

    /// The newest height at which the endpoints can contradict each other.
    pub fn comparable_height(&self) -> Option<u64> {
        let answering = self.endpoints.iter().filter(|endpoint| endpoint.answers());
        let heads: Vec<u64> = answering.filter_map(|endpoint| endpoint.head()).collect();
        self.quorum.comparable(&heads)
    }

    /// The newest height that counts as being on top of other blocks: nobody's newest block does by
    /// its own word alone, where others answer. `None` if nobody answers.
    pub fn depth_height(&self) -> Option<u64> {
        let answering = self.endpoints.iter().filter(|endpoint| endpoint.answers());
        let heads: Vec<(u64, bool)> =
            answering.filter_map(|endpoint| endpoint.progress()).collect();
        self.quorum.depth_up_to(&heads)
    }

    /// An endpoint said something that the others contradict: that is remembered for whoever asks.
    /// With `set_aside` it is not used for a while, unless no other one answers.
    pub fn contradicted(&self, place: usize, words: &str, set_aside: bool) {
        if let Some(endpoint) = self.endpoints.get(place) {
            endpoint.contradicted(words, set_aside);
        }
    }
}

/// What an endpoint has at these heights, as far as it says.
async fn blocks_at(
    endpoint: &Endpoint,
    heights: &[u64],
    with: With,
    limit: usize,
) -> HashMap<u64, Block> {
    let mut blocks = HashMap::with_capacity(heights.len());
    for heights in heights.chunks(limit.max(1)) {
        let calls: Vec<_> = heights.iter().map(|height| at_call(*height, with)).collect();
        for (answer, height) in endpoint.rpc.batch(&calls).await.into_iter().zip(heights) {
            match read_at(answer, *height) {
                Ok(block) => {
                    block.iter().for_each(|block| endpoint.note_block(block));
                    blocks.extend(block.map(|block| (*height, block)));
                }
                Err(error) => endpoint.note(&error),
            }
        }
        if !endpoint.answers() {
            break;
        }
    }
    blocks
}
