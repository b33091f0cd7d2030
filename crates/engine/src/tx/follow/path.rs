//! The way from what is known of a chain to its newest block.

use std::collections::VecDeque;

use stile_chain::{Block, ChainError, View};
use stile_domain::{ChainId, Fit, Header, HeaderWindow};

/// Blocks fetched one after the other at most; past that everything is looked at anew.
const LEAP: u64 = 600;

/// Heights fetched in one batch.
const CHUNK: usize = 50;

/// How many passes another endpoint may be behind what is known before it is believed.
const PATIENCE: u32 = 40;

/// How many passes the same endpoint may be below everything that is known: nodes behind a load
/// balancer are not level, and a chain may have been reset.
const BELOW_PATIENCE: u32 = 10;

/// What there is to do.
#[derive(Debug)]
pub(super) enum Path {
    /// Nothing: the endpoint has not come as far as is known.
    Wait,
    /// These blocks, oldest first.
    Steps(Steps),
}

/// The new blocks, and where they branch off.
#[derive(Debug)]
pub(super) struct Steps {
    /// The height above which nothing that was known is canonical any more; `None` if the blocks
    /// only go on top.
    pub(super) above: Option<u64>,
    /// Oldest first.
    pub(super) blocks: Vec<Block>,
    /// The blocks do not connect to what is known: too much happened in between.
    pub(super) leap: bool,
}

impl Path {
    pub(super) fn into_steps(self) -> Option<Steps> {
        match self {
            Self::Wait => None,
            Self::Steps(steps) => Some(steps),
        }
    }
}

pub(super) async fn find(
    chain: ChainId,
    view: &View,
    window: &HeaderWindow,
    same_endpoint: bool,
    behind: &mut u32,
) -> Result<Path, ChainError> {
    let head = *view.head();
    let Some(tip) = window.tip().copied() else {
        let blocks = vec![newest(chain, view).await?];
        return Ok(Path::Steps(Steps { above: None, blocks, leap: true }));
    };
    if is_ancestor(window, &head) {
        // It is late, or somebody else answers in its place. Nothing that is known is contradicted,
        // so nothing is taken back, however long that lasts.
        *behind = behind.saturating_add(1);
        return Ok(Path::Wait);
    }
    let is_below = window.bottom().is_some_and(|bottom| head.height < bottom);
    let patience = match (same_endpoint, is_below) {
        (false, _) => PATIENCE,
        (true, true) => BELOW_PATIENCE,
        (true, false) => 0,
    };
    if head.height < tip.height && *behind < patience {
        // It is behind: most likely it is only late.
        *behind += 1;
        return Ok(Path::Wait);
    }
    *behind = 0;
    let head = newest(chain, view).await?;
    if head.header.height > tip.height + LEAP {
        return Ok(Path::Steps(Steps { above: None, blocks: vec![head], leap: true }));
    }
    let mut blocks = VecDeque::from([head]);
    catch_up(chain, view, tip.height, &mut blocks).await?;
    while let Some(lowest) = blocks.front()
        && window.fit(&lowest.header) == Fit::NeedsParent
    {
        let lowest = lowest.header;
        let Some(parent) = view.block(lowest.parent).await? else {
            return Err(changed(chain, lowest.height.saturating_sub(1)));
        };
        blocks.push_front(parent);
    }
    let known = |block: &Block| window.fit(&block.header) == Fit::Known;
    let mut above = None;
    while let Some(lowest) = blocks.front()
        && known(lowest)
    {
        above = Some(lowest.header.height);
        blocks.pop_front();
    }
    let above = match (above, blocks.front()) {
        (Some(height), _) => Some(height),
        (None, Some(lowest)) => lowest.header.height.checked_sub(1),
        (None, None) => None,
    };
    let branches = above.is_some_and(|height| height < tip.height);
    Ok(Path::Steps(Steps { above: above.filter(|_| branches), blocks: blocks.into(), leap: false }))
}

/// Whether a head is below the newest known block and known itself: then the chain only goes on
/// above it.
fn is_ancestor(window: &HeaderWindow, head: &Header) -> bool {
    window.tip().is_some_and(|tip| head.height < tip.height)
        && window.hash_at(head.height) == Some(head.hash)
}

/// The newest block, with its transactions.
async fn newest(chain: ChainId, view: &View) -> Result<Block, ChainError> {
    let head = view.head();
    view.block(head.hash).await?.ok_or_else(|| changed(chain, head.height))
}

/// Fetches what lies between what is known and the newest block, many at a time.
async fn catch_up(
    chain: ChainId,
    view: &View,
    known: u64,
    blocks: &mut VecDeque<Block>,
) -> Result<(), ChainError> {
    let head = view.head().height;
    let between: Vec<u64> = (known + 1..head).collect();
    let mut fetched = Vec::with_capacity(between.len());
    for chunk in between.chunks(CHUNK) {
        for (height, block) in chunk.iter().zip(view.blocks(chunk).await?) {
            fetched.push(block.ok_or_else(|| changed(chain, *height))?);
        }
    }
    for block in fetched.into_iter().rev() {
        if blocks.front().is_some_and(|above| above.header.parent != block.header.hash) {
            // It changed while it was being read.
            return Err(changed(chain, block.header.height));
        }
        blocks.push_front(block);
    }
    Ok(())
}

/// The chain changed while it was being read, or the endpoint lost a block it had: read again.
fn changed(chain: ChainId, height: u64) -> ChainError {
    let why = format!("block {height} changed while it was being read");
    ChainError::Unreachable { chain, said: vec![why] }
}

#[cfg(test)]
mod tests {
    use stile_domain::B256;

    use super::*;

    #[test]
    fn hole_24_a_head_that_is_known_is_no_fork() {
        let hash = |height: u64| B256::with_last_byte(height as u8);
        let header = |height| Header { height, hash: hash(height), parent: hash(height - 1) };
        let window = HeaderWindow::new(10, (5..=9).map(header));
        assert!(is_ancestor(&window, &header(5)));
        assert!(is_ancestor(&window, &header(8)));
        assert!(!is_ancestor(&window, &header(9)), "the newest one");
        assert!(!is_ancestor(&window, &header(10)));
        assert!(!is_ancestor(&window, &header(4)), "nothing is known there");
        let other = Header { hash: B256::repeat_byte(7), ..header(8) };
        assert!(!is_ancestor(&window, &other), "another block at a known height");
    }
}
