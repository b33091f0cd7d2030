//! The blocks on top of a transaction.
//!
//! They are not written down one by one: they follow from where the transaction was mined and from
//! the canonical headers. An event that changes what was told before carries `newFork: true` and
//! the whole list; one that only adds to it carries the new part.

use serde_json::{Value, json};
use stile_domain::{B256, Finality, Header, HeaderWindow, Receipt};

/// A canonical block that confirms a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRef {
    /// Its height.
    pub number: u64,
    /// Its hash.
    pub hash: B256,
}

/// The newest height that belongs on a transaction's list: as many as were asked for, or all.
fn last_height(receipt: &Receipt, finality: Finality) -> u64 {
    match finality {
        Finality::Confirmations(required) => receipt.block_number + u64::from(required),
        Finality::Safe | Finality::Finalized => u64::MAX,
    }
}

/// The blocks of a list from a height on: the transaction's own first, then those on top of it.
pub fn list<'h>(
    headers: impl Iterator<Item = &'h Header>,
    receipt: &Receipt,
    finality: Finality,
    from: u64,
) -> Vec<BlockRef> {
    let last = last_height(receipt, finality);
    headers
        .filter(|header| (from.max(receipt.block_number)..=last).contains(&header.height))
        .map(|header| BlockRef { number: header.height, hash: header.hash })
        .collect()
}

/// What an event tells about a transaction's list, and up to where it is told then.
pub(crate) struct Telling {
    pub(crate) data: Value,
    pub(crate) told: Option<(u64, B256)>,
}

/// Tells the list: all of it if it is a new fork, else what was not told before.
pub(crate) fn tell(
    window: &HeaderWindow,
    receipt: &Receipt,
    finality: Finality,
    told: Option<(u64, B256)>,
    new_fork: bool,
) -> Telling {
    let from = match told {
        Some((height, _)) if !new_fork => height + 1,
        _ => receipt.block_number,
    };
    let mut blocks = list(window.from(from), receipt, finality, from);
    let own = BlockRef { number: receipt.block_number, hash: receipt.block_hash };
    if from == receipt.block_number && blocks.first() != Some(&own) {
        // It was mined before the window begins.
        blocks.insert(0, own);
    }
    let told = blocks.last().map(|block| (block.number, block.hash)).or(told);
    let blocks: Vec<Value> = blocks.iter().map(BlockRef::json).collect();
    Telling { data: json!({ "newFork": new_fork, "confirmations": blocks }), told }
}

impl BlockRef {
    /// As events and answers show it.
    pub fn json(&self) -> Value {
        json!({ "blockNumber": self.number, "blockHash": self.hash })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(height: u64) -> B256 {
        B256::with_last_byte(height as u8)
    }

    fn window(heights: std::ops::RangeInclusive<u64>) -> HeaderWindow {
        let header = |height| Header { height, hash: hash(height), parent: hash(height - 1) };
        HeaderWindow::new(100, heights.map(header))
    }

    fn receipt(height: u64) -> Receipt {
        Receipt {
            tx_hash: B256::ZERO,
            block_number: height,
            block_hash: hash(height),
            transaction_index: 0,
            status: Some(true),
            gas_used: 21_000,
            effective_gas_price: 1,
            contract_address: None,
        }
    }

    fn heights(telling: &Telling) -> Vec<u64> {
        let blocks = telling.data["confirmations"].as_array().unwrap();
        blocks.iter().map(|block| block["blockNumber"].as_u64().unwrap()).collect()
    }

    #[test]
    fn an_extension_tells_the_new_part_and_a_new_fork_the_whole_list() {
        let three = Finality::Confirmations(3);
        let first = tell(&window(1..=10), &receipt(9), three, None, false);
        assert_eq!(heights(&first), [9, 10]);
        assert_eq!(first.told, Some((10, hash(10))));
        let more = tell(&window(1..=14), &receipt(9), three, first.told, false);
        assert_eq!(heights(&more), [11, 12], "no more than was asked for");
        assert_eq!(more.data["newFork"], false);
        let forked = tell(&window(1..=11), &receipt(9), three, more.told, true);
        assert_eq!(heights(&forked), [9, 10, 11]);
        assert_eq!(forked.data["newFork"], true);
    }

    #[test]
    fn its_own_block_is_on_the_list_even_below_the_window() {
        let telling = tell(&window(50..=52), &receipt(9), Finality::Safe, None, false);
        assert_eq!(heights(&telling), [9, 50, 51, 52]);
    }
}
