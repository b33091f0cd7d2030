//! The way from what is known of a chain to its newest block.

use std::collections::VecDeque;

use stile_chain::{Block, ChainError, View};
use stile_domain::{Fit, Header, HeaderWindow, SetBack};

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

/// Why there is no way.
#[derive(Debug)]
pub(super) enum Fault {
    /// Something could not be read.
    Unread(ChainError),
    /// What the endpoint says cannot be, in words.
    Impossible(String),
}

impl From<ChainError> for Fault {
    fn from(error: ChainError) -> Self {
        Self::Unread(error)
    }
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
    view: &View,
    window: &HeaderWindow,
    same_endpoint: bool,
    behind: &mut u32,
) -> Result<Path, Fault> {
    let head = *view.head();
    let Some(tip) = window.tip().copied() else {
        let blocks = vec![newest(view).await?];
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
    let head = newest(view).await?;
    if head.header.height > tip.height + LEAP {
        return Ok(Path::Steps(Steps { above: None, blocks: vec![head], leap: true }));
    }
    let mut blocks = VecDeque::from([head]);
    catch_up(view, tip.height, &mut blocks).await?;
    while let Some(lowest) = blocks.front()
        && window.fit(&lowest.header) == Fit::NeedsParent
    {
        let lowest = lowest.header;
        let Some(parent) = view.block(lowest.parent).await? else {
            return Err(changed(view, lowest.height.saturating_sub(1)).into());
        };
        is_parent(&parent.header, &lowest)?;
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
        // Another first block leaves nothing: that is a fork like any, and not one that links.
        (None, Some(lowest)) => Some(lowest.header.height.saturating_sub(1)),
        (None, None) => None,
    };
    let branches = above.is_some_and(|height| height < tip.height);
    Ok(Path::Steps(Steps { above: above.filter(|_| branches), blocks: blocks.into(), leap: false }))
}

impl Steps {
    /// The known blocks that are not canonical any more, oldest first.
    pub(super) fn replaced(&self, window: &HeaderWindow) -> Vec<Header> {
        let (Some(above), Some(lowest)) = (self.above, self.blocks.first()) else {
            return Vec::new();
        };
        // The first block of another chain has nothing below it that could stay.
        let from = above.saturating_add(1).min(lowest.header.height);
        window.from(from).copied().collect()
    }

    /// How the chain is set back by this, where `window` is what is known. What lies above the height up
    /// to which the endpoints had `agreed` was one endpoint's word: that it is gone says nothing.
    pub(super) fn set_back(&self, window: &HeaderWindow, agreed: Option<u64>) -> SetBack {
        let (Some(above), Some(tip), Some(lowest)) =
            (self.above, window.tip(), self.blocks.first())
        else {
            return SetBack::default();
        };
        let is_another = lowest.header.height == 0;
        let top = agreed.map_or(tip.height, |agreed| agreed.min(tip.height));
        SetBack { blocks: top.saturating_sub(above), is_another }
    }
}

/// Whether a head is below the newest known block and known itself: then the chain only goes on
/// above it.
fn is_ancestor(window: &HeaderWindow, head: &Header) -> bool {
    window.tip().is_some_and(|tip| head.height < tip.height)
        && window.hash_at(head.height) == Some(head.hash)
}

/// The newest block, with its transactions. It is the very block that the endpoint said it is.
async fn newest(view: &View) -> Result<Block, Fault> {
    let head = view.head();
    let block = view.block(head.hash).await?.ok_or_else(|| changed(view, head.height))?;
    is_the_same(head, &block.header)?;
    Ok(block)
}

/// A hash stands for one header: an endpoint that shows two makes them up.
fn is_the_same(said: &Header, shown: &Header) -> Result<(), Fault> {
    if said == shown {
        return Ok(());
    }
    Err(Fault::Impossible(format!(
        "calls {} block {} on top of {}, and shows it as block {} on top of {}",
        said.hash, said.height, said.parent, shown.height, shown.parent
    )))
}

/// Whether a block can be the parent of another: it is one lower. So every step back leads down,
/// and the way ends at the lowest known height at the latest.
fn is_parent(parent: &Header, child: &Header) -> Result<(), Fault> {
    if parent.height.checked_add(1) == Some(child.height) && parent.hash == child.parent {
        return Ok(());
    }
    Err(Fault::Impossible(format!(
        "shows block {} as the parent of block {} ({})",
        parent.height, child.height, child.hash
    )))
}

/// Fetches what lies between what is known and the newest block, many at a time.
async fn catch_up(view: &View, known: u64, blocks: &mut VecDeque<Block>) -> Result<(), ChainError> {
    let head = view.head().height;
    let between: Vec<u64> = (known + 1..head).collect();
    let mut fetched = Vec::with_capacity(between.len());
    for chunk in between.chunks(CHUNK) {
        for (height, block) in chunk.iter().zip(view.blocks(chunk).await?) {
            fetched.push(block.ok_or_else(|| changed(view, *height))?);
        }
    }
    for block in fetched.into_iter().rev() {
        if blocks.front().is_some_and(|above| above.header.parent != block.header.hash) {
            // It changed while it was being read.
            return Err(changed(view, block.header.height));
        }
        blocks.push_front(block);
    }
    Ok(())
}

/// The chain changed while it was being read, or the endpoint lost a block it had: read again.
fn changed(view: &View, height: u64) -> ChainError {
    view.lacks(format!("block {height} changed while it was being read"))
}

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;

    use stile_domain::B256;

    use super::*;

    fn words(found: Result<(), Fault>) -> String {
        match found {
            Ok(()) => String::new(),
            Err(Fault::Impossible(words)) => words,
            Err(Fault::Unread(error)) => panic!("{error}"),
        }
    }

    #[test]
    fn hole_23_a_hash_stands_for_one_header() {
        let said = Header { height: 111, hash: B256::repeat_byte(1), parent: B256::ZERO };
        assert_eq!(words(is_the_same(&said, &said)), "");
        for height in [105, 110, 112, 300] {
            let words = words(is_the_same(&said, &Header { height, ..said }));
            assert!(words.contains(&format!("and shows it as block {height}")), "{words}");
        }
        let other = Header { parent: B256::repeat_byte(2), ..said };
        assert!(is_the_same(&said, &other).is_err());
    }

    #[test]
    fn hole_23_every_step_back_leads_down() {
        let child = Header { height: 7, hash: B256::repeat_byte(7), parent: B256::repeat_byte(6) };
        let parent = |height| Header { height, hash: child.parent, parent: B256::ZERO };
        assert_eq!(words(is_parent(&parent(6), &child)), "");
        for height in [0, 5, 7, 8, u64::MAX] {
            assert!(words(is_parent(&parent(height), &child)).contains("as the parent of block 7"));
        }
        let other = Header { hash: B256::ZERO, ..parent(6) };
        assert!(is_parent(&other, &child).is_err());
    }

    #[test]
    fn hole_39_another_first_block_replaces_all_that_is_known() {
        let header = |fork: u8, height: u64| Header {
            height,
            hash: B256::left_padding_from(&[fork, height as u8]),
            parent: B256::left_padding_from(&[fork, (height as u8).wrapping_sub(1)]),
        };
        let block = |header| Block {
            header,
            transactions: Vec::new(),
            timestamp: 0,
            base_fee: None,
            gas_limit: None,
            rules: stile_domain::GasRules::default(),
        };
        let steps = |above, lowest| Steps { above, blocks: vec![block(lowest)], leap: false };
        let (young, old) = (0..=9, 200..=400);
        let known = |heights: RangeInclusive<u64>| {
            HeaderWindow::new(300, heights.map(|height| header(1, height)))
        };
        // what is known, the fork, how many are replaced, how many blocks are gone, another chain
        for (window, steps, replaced, blocks, is_another) in [
            (known(young.clone()), steps(Some(0), header(2, 0)), 10, 9, true),
            (known(old.clone()), steps(Some(0), header(2, 0)), 201, 400, true),
            (known(old.clone()), steps(Some(0), header(2, 1)), 201, 400, false),
            (known(old), steps(Some(397), header(2, 398)), 3, 3, false),
            (known(young.clone()), steps(Some(8), header(2, 9)), 1, 1, false),
            (known(young), steps(None, header(1, 10)), 0, 0, false),
        ] {
            assert_eq!(steps.replaced(&window).len(), replaced, "{steps:?}");
            assert_eq!(steps.set_back(&window, None), SetBack { blocks, is_another }, "{steps:?}");
            let untold = SetBack { blocks: 0, is_another };
            assert_eq!(steps.set_back(&window, Some(0)), untold, "nobody else has seen any of it");
        }
    }

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
