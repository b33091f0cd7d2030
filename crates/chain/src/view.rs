//! One endpoint's view of the chain: everything asked of it is told by the same node, so that it
//! fits together.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use alloy::primitives::{Address, B256};
use serde_json::json;
use stile_domain::{ChainId, Header, Nonce, Receipt};

use crate::accounts::{At, count_call, read_count};
use crate::batches::{ask_each, ask_each_apart};
use crate::blocks::{Block, Outline, With, at_call, hash_call, read_at, read_hash};
use crate::calls::Method;
use crate::capability::Capability;
use crate::classify;
use crate::endpoint::Endpoint;
use crate::known::known_call;
use crate::mined::{MinedTx, read_mined};
use crate::pool::one;
use crate::receipts::{Receipts, read_receipts, receipts_by_hash};
use crate::rpc::{Call, CallError};
use crate::{ChainError, ChainPool};

/// How many whole blocks are asked for at once. A block of a busy chain can be megabytes long,
/// and endpoints limit what they send in one answer.
pub(crate) const WHOLE_BLOCKS: usize = 8;

/// What an endpoint tells of a transaction in a block; an error if that cannot be read.
type Mined = Result<Option<MinedTx>, CallError>;

impl ChainPool {
    /// The same as [`View::mined`], and another endpoint is asked for what the followed one tells so
    /// that it cannot be read: what was signed is checked, whoever tells it.
    pub async fn mined(
        &self,
        view: &View,
        hashes: &[B256],
    ) -> Result<Vec<Option<MinedTx>>, ChainError> {
        let mut told = view.mined_apart(hashes).await?;
        for endpoint in self.usable().await?.iter().filter(|it| !Arc::ptr_eq(it, &view.endpoint)) {
            let places: Vec<usize> =
                (0..told.len()).filter(|place| told[*place].is_err()).collect();
            if places.is_empty() {
                break;
            }
            let wanted: Vec<B256> = places.iter().map(|place| hashes[*place]).collect();
            let limit = self.batch_limit();
            match ask_each_apart(endpoint, limit, &wanted, known_call, read_mined).await {
                Ok(others) => places.into_iter().zip(others).for_each(|(at, it)| told[at] = it),
                Err(error) => endpoint.note(&error),
            }
        }
        Ok(told.into_iter().map(|mined| mined.ok().flatten()).collect())
    }
}

/// The chain as the followed endpoint sees it.
#[derive(Debug, Clone)]
pub struct View {
    chain: ChainId,
    batch_limit: usize,
    place: usize,
    endpoint: Arc<Endpoint>,
    head: Header,
    /// The first thing that was asked of it in vain.
    trouble: Arc<Mutex<Option<String>>>,
}

impl View {
    pub(crate) fn new(
        pool: &ChainPool,
        place: usize,
        endpoint: Arc<Endpoint>,
        head: Header,
    ) -> Self {
        let (chain, batch_limit) = (pool.chain(), pool.batch_limit());
        Self { chain, batch_limit, place, endpoint, head, trouble: Arc::default() }
    }

    /// The same view with a memory of its own for what is asked in vain.
    #[must_use]
    pub fn for_one(self) -> Self {
        Self { trouble: Arc::default(), ..self }
    }

    /// The first thing that was asked of the endpoint in vain, in words. `None` if it has answered
    /// everything so far.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The endpoint does not have what it has to have by its own word.
    pub fn lacks(&self, what: impl Into<String>) -> ChainError {
        let what = what.into();
        self.note_trouble(&what);
        ChainError::Unreachable { chain: self.chain, said: vec![self.endpoint.complaint(what)] }
    }

    fn note_trouble(&self, words: &str) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.get_or_insert_with(|| words.to_owned());
    }

    /// The newest block's header. The block itself is asked for when it turns out to be new.
    pub fn head(&self) -> &Header {
        &self.head
    }

    /// The endpoint's host and port.
    pub fn endpoint(&self) -> &str {
        self.endpoint.shown()
    }

    /// The endpoint's place in the configuration, from 0.
    pub fn place(&self) -> usize {
        self.place
    }

    /// The block at a height; `None` above the head.
    pub async fn block_at(&self, height: u64) -> Result<Option<Block>, ChainError> {
        let call = at_call(height, With::Transactions);
        self.tell(read_at(one(&self.endpoint, &call).await, height))
    }

    /// A block by its hash, canonical or not; `None` if the endpoint does not have it.
    pub async fn block(&self, hash: B256) -> Result<Option<Block>, ChainError> {
        let call = hash_call(hash, With::Transactions);
        self.tell(read_hash(one(&self.endpoint, &call).await, hash))
    }

    /// The blocks at these heights, in the same order.
    pub async fn blocks(&self, heights: &[u64]) -> Result<Vec<Option<Block>>, ChainError> {
        let call = |height| at_call(height, With::Transactions);
        let limit = self.batch_limit.min(WHOLE_BLOCKS);
        self.tell(ask_each(&self.endpoint, limit, heights, call, read_at).await)
    }

    /// The headers at these heights, in the same order: the same as [`View::blocks`] for whoever
    /// does not need the transactions, and far less to send.
    pub async fn headers(&self, heights: &[u64]) -> Result<Vec<Option<Header>>, ChainError> {
        let call = |height| at_call(height, With::Hashes);
        let read = |answer, height| Ok(read_at(answer, height)?.map(|block| block.header));
        self.tell(ask_each(&self.endpoint, self.batch_limit, heights, call, read).await)
    }

    /// When the blocks at these heights were made and whether they hold anything, in the same order.
    pub async fn outlines(&self, heights: &[u64]) -> Result<Vec<Option<Outline>>, ChainError> {
        let call = |height| at_call(height, With::Hashes);
        let read = |answer, height| Ok(read_at(answer, height)?.as_ref().map(Outline::of));
        self.tell(ask_each(&self.endpoint, self.batch_limit, heights, call, read).await)
    }

    /// How many transactions an account had made by each of these heights, in the same order. Nodes
    /// forget old states; if one of these is forgotten, there is no answer.
    pub async fn counts_at(
        &self,
        account: Address,
        heights: &[u64],
    ) -> Result<Vec<Nonce>, ChainError> {
        let call = |height| count_call(account, At::Height(height));
        let read = |answer, _| read_count(answer);
        self.tell(ask_each(&self.endpoint, self.batch_limit, heights, call, read).await)
    }

    /// Transactions that are in blocks, in the order of their hashes, with the bytes that were signed;
    /// `None` for one that the endpoint does not have in a block, or tells so that it cannot be read.
    pub async fn mined(&self, hashes: &[B256]) -> Result<Vec<Option<MinedTx>>, ChainError> {
        let told = self.mined_apart(hashes).await?.into_iter();
        Ok(told.map(|mined| mined.ok().flatten()).collect())
    }

    async fn mined_apart(&self, hashes: &[B256]) -> Result<Vec<Mined>, ChainError> {
        let limit = self.batch_limit;
        let told = ask_each_apart(&self.endpoint, limit, hashes, known_call, read_mined).await;
        let told = self.tell(told)?;
        told.iter().filter_map(|mined| mined.as_ref().err()).for_each(|e| self.note_unread(e));
        Ok(told)
    }

    /// The receipts of those of the transactions that are in this block, as far as the endpoint has
    /// them: a node may index a block a moment after it shows it. Asked for all at once where the
    /// endpoint offers that, else, and for what is not among them, one by one in a batch.
    pub async fn receipts_in(
        &self,
        block: &Header,
        wanted: &[B256],
    ) -> Result<Vec<Receipt>, ChainError> {
        match wanted {
            [] => Ok(Vec::new()),
            // A single one is had for less than a whole block's.
            [_] => self.receipts_one_by_one(block, wanted).await,
            _ if self.endpoint.lacks_block_receipts() => {
                self.receipts_one_by_one(block, wanted).await
            }
            _ => self.receipts_of_block(block, wanted).await,
        }
    }

    /// One by one, too, where the endpoint does not offer it, or is not done with a large block in time,
    /// or refuses it for another reason; and so what it leaves out.
    async fn receipts_of_block(
        &self,
        block: &Header,
        wanted: &[B256],
    ) -> Result<Vec<Receipt>, ChainError> {
        let hashes: HashSet<&B256> = wanted.iter().collect();
        let call = Call::new(Method::BlockReceipts, json!([block.hash]));
        let told = match read_receipts(one(&self.endpoint, &call).await, &hashes) {
            Ok(told) => told,
            Err(error) if classify::is_unsupported(&error) => {
                self.endpoint.learn(Capability::BlockReceipts, false);
                return self.receipts_one_by_one(block, wanted).await;
            }
            Err(error) if may_be_had_one_by_one(&error) => {
                self.endpoint.note_block_receipts(false);
                return self.receipts_one_by_one(block, wanted).await;
            }
            Err(error) => return self.tell(Err(error)),
        };
        let has_block = told.is_some();
        let Receipts { mut found, unread } = told.unwrap_or_default();
        found.retain(|receipt| is_in(receipt, block));
        let there: HashSet<B256> = found.iter().map(|receipt| receipt.tx_hash).collect();
        let missing: Vec<B256> =
            wanted.iter().filter(|hash| !there.contains(*hash)).copied().collect();
        if missing.is_empty() {
            self.endpoint.note_block_receipts(true);
            return Ok(found);
        }
        let others = self.receipts_one_by_one(block, &missing).await?;
        if !others.is_empty() {
            // It has what it left out.
            self.endpoint.note_block_receipts(false);
        } else if !has_block {
            return self.tell(Err(CallError::Garbled("that it does not have the block")));
        }
        if others.len() < missing.len() {
            unread.iter().for_each(|error| self.note_unread(error));
        }
        found.extend(others);
        Ok(found)
    }

    async fn receipts_one_by_one(
        &self,
        block: &Header,
        wanted: &[B256],
    ) -> Result<Vec<Receipt>, ChainError> {
        let told = receipts_by_hash(&self.endpoint, wanted, self.batch_limit).await;
        let Receipts { mut found, unread } = self.tell(told)?;
        // Those that cannot be read are as if the endpoint did not have them: another one may.
        unread.iter().for_each(|error| self.note_unread(error));
        found.retain(|receipt| is_in(receipt, block));
        Ok(found)
    }

    fn note_unread(&self, error: &CallError) {
        self.note_trouble(&error.to_string());
    }

    fn tell<T>(&self, answer: Result<T, CallError>) -> Result<T, ChainError> {
        answer.map_err(|error| {
            self.endpoint.note(&error);
            // Too many calls of our own are no fault of the endpoint's.
            if !matches!(error, CallError::Crowded(_)) {
                self.note_trouble(&error.to_string());
            }
            let said = vec![self.endpoint.complaint(error)];
            ChainError::Unreachable { chain: self.chain, said }
        })
    }
}

fn is_in(receipt: &Receipt, block: &Header) -> bool {
    receipt.block_hash == block.hash && receipt.block_number == block.height
}

/// Whether a block's receipts failed in a way that says nothing about single ones. What the endpoint
/// does not have yet, or does not answer at all, it does not answer one by one either.
fn may_be_had_one_by_one(error: &CallError) -> bool {
    match error {
        CallError::Timeout(_) | CallError::Unreadable(_) => true,
        CallError::Said { .. } => {
            classify::rate_limit(error).is_none() && !classify::is_no_such_block(error)
        }
        CallError::Http(status) => (400..500).contains(status),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hole_37_receipts_that_are_refused_for_a_block_are_asked_for_one_by_one() {
        let said =
            |code, message: &str| CallError::Said { code, message: message.to_owned(), data: None };
        for (error, expected) in [
            (CallError::Timeout(std::time::Duration::from_secs(3).into()), true),
            (said(-32603, "Internal error"), true),
            (said(-32000, "response size exceeded"), true),
            (CallError::Http(403), true),
            (CallError::Http(503), false),
            (said(-32000, "header not found"), false),
            (said(-32000, "block 0x1… not found"), false),
            (said(-32005, "rate limit reached"), false),
            (CallError::Unreachable, false),
            (CallError::Limited(None), false),
        ] {
            assert_eq!(may_be_had_one_by_one(&error), expected, "{error}");
        }
    }
}
