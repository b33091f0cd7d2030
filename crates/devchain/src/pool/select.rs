//! Which transactions go into a block, and in what order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use alloy_primitives::B256;

use super::waiting::Waiting;
use crate::chain::build::{Builder, Unfit};

/// The least that any transaction needs.
const LEAST_GAS: u64 = 21_000;

/// Fills a block with at most so many of these queues' transactions, those that leave most to
/// whoever makes the block first. Returns what turned out not to be valid, with the reasons.
///
/// What does not offer the base fee waits, and with it all later nonces of its sender.
pub(crate) fn fill(
    builder: &mut Builder<'_>,
    queues: &[Vec<Waiting>],
    base_fee: u64,
    most: usize,
) -> Vec<(B256, String)> {
    let entry = |queue: usize, place: usize| {
        let waiting = queues.get(queue)?.get(place)?;
        let tip = waiting.tx.tip(base_fee)?;
        Some((tip, Reverse(waiting.arrival), queue, place))
    };
    let mut heap: BinaryHeap<_> = (0..queues.len()).filter_map(|queue| entry(queue, 0)).collect();
    let mut invalid = Vec::new();
    let mut taken = 0;
    while taken < most && builder.room() >= LEAST_GAS {
        let Some((_, _, queue, place)) = heap.pop() else { break };
        let tx = &queues[queue][place].tx;
        match builder.add(tx) {
            Ok(()) => {
                taken += 1;
                heap.extend(entry(queue, place + 1));
            }
            // The sender's later ones have to wait for this one.
            Err(Unfit::NoRoom) => {}
            Err(Unfit::Invalid(reason)) => invalid.push((tx.hash, reason)),
        }
    }
    invalid
}
