//! What new blocks mean for open transactions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use stile_domain::{
    B256, Finality, Header, HeaderWindow, Heads, Lane, Receipt, Step, Successor, TxId, TxState,
};
use stile_store::{Set, WishEnd};
use tracing::{debug, info};

use super::alarm::Lost;
use crate::core::Core;
use crate::metrics;
use crate::tx::book::{Book, Open};
use crate::tx::confirmations::{self, Telling};
use crate::tx::track::Track;
use crate::tx::{overtake, replace};

/// A chain that was replaced in part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fork {
    /// The height above which it was.
    pub(super) above: u64,
    /// More is gone than reorganisations are followed through.
    pub(super) is_deep: bool,
}

/// What stood in blocks above a height, and is in none of the new ones.
pub(super) fn lost(book: &Book, above: u64, found: &HashMap<TxId, Receipt>) -> Vec<Lost> {
    let gone = book.iter().filter(|open| !open.lost && !found.contains_key(&open.id));
    let gone = gone.filter_map(|open| Some((open, open.block().filter(|(at, _)| *at > above)?)));
    gone.map(|(open, (height, block))| Lost { lane: open.lane, id: open.id, height, block })
        .collect()
}

/// Applies a pass: what was found in the new blocks, and what a fork took away.
pub(super) fn blocks(
    core: &Arc<Core>,
    track: &Track,
    fork: Option<Fork>,
    replaced: &[Header],
    mut found: HashMap<TxId, Receipt>,
) {
    let window = track.window().clone();
    let heads = track.heads().unwrap_or_default();
    let mut again: Vec<TxId> = Vec::new();
    let mut roomy: Vec<Lane> = Vec::new();
    {
        let mut book = track.book();
        if let Some(Fork { above: ancestor, is_deep }) = fork {
            for (id, height, block) in mined(&book) {
                match touched(replaced, ancestor, height, block) {
                    Touched::Not => {}
                    Touched::Below => forked(core, &mut book, &window, &heads, id),
                    Touched::Taken | Touched::Elsewhere if found.contains_key(&id) => {
                        if let Some(receipt) = found.remove(&id) {
                            mine(core, &mut book, &window, id, receipt);
                        }
                    }
                    // A person decides about it, however deep it was.
                    Touched::Taken | Touched::Elsewhere if is_deep => lose(&mut book, id),
                    Touched::Taken => {
                        unmine(core, &mut book, id);
                        again.push(id);
                    }
                    Touched::Elsewhere => verify_again(&mut book, id),
                }
            }
        }
        for (id, receipt) in found {
            roomy.extend(book.get(id).map(|open| open.lane));
            mine(core, &mut book, &window, id, receipt);
        }
    }
    // A transaction that was reorganised out goes back on the wire at once.
    core.submit(track, again);
    roomy.sort_unstable();
    roomy.dedup();
    for lane in roomy {
        crate::tx::wake(core, &core.lanes.slot(lane));
    }
}

/// What is in a block, with the block. Not what waits for a person.
fn mined(book: &Book) -> Vec<(TxId, u64, B256)> {
    let known = book.iter().filter(|open| !open.lost);
    let place = |open: &Open| open.block().map(|(height, block)| (open.id, height, block));
    known.filter_map(place).collect()
}

/// What a fork has to do with a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Touched {
    /// Nothing.
    Not,
    /// Blocks on top of it were replaced.
    Below,
    /// It was replaced.
    Taken,
    /// It is as high as what was replaced, and was not on that chain: where it is has to be found out.
    Elsewhere,
}

fn touched(replaced: &[Header], ancestor: u64, height: u64, block: B256) -> Touched {
    let top = replaced.iter().map(|header| header.height).max().unwrap_or(ancestor);
    match height > ancestor {
        true if replaced.iter().any(|header| header.hash == block) => Touched::Taken,
        true => Touched::Elsewhere,
        false if height < top => Touched::Below,
        false => Touched::Not,
    }
}

/// Has the block of a transaction compared with the chain.
fn verify_again(book: &mut Book, id: TxId) {
    if let Some(open) = book.get_mut(id) {
        open.unverified = true;
        open.next_check = Instant::now();
    }
}

/// It is in a canonical block: for the first time, or in another one than before.
pub(crate) fn mine(
    core: &Core,
    book: &mut Book,
    window: &HeaderWindow,
    id: TxId,
    mut receipt: Receipt,
) {
    let Some(open) = book.get_mut(id) else { return };
    open.shown_in = None;
    let mined = open.attempts.iter().find(|attempt| attempt.hash == receipt.tx_hash);
    if receipt.contract_address.is_some() && mined.is_some_and(replace::is_call) {
        // Some nodes name the contract that was called.
        receipt.contract_address = None;
    }
    if receipt.contract_address.is_none() && receipt.status == Some(true) {
        // Some nodes name none.
        let sender = open.lane.signer;
        receipt.contract_address = mined.and_then(|attempt| replace::creates(attempt, sender));
    }
    if let Some(by) = successor(open, &receipt) {
        if open.receipt.is_some() {
            // It was mined itself before the chain was reorganised.
            unmine(core, book, id);
        }
        return overtake::by_receipt(core, book, id, by, &receipt);
    }
    let is_known = |known: &Receipt| {
        let told = |it: &Receipt| (it.tx_hash, it.block_hash, it.status, it.contract());
        told(known) == told(&receipt)
    };
    if open.receipt.as_ref().is_some_and(is_known) {
        return;
    }
    let (lane, nonce, finality) = (open.lane, open.nonce, open.finality);
    let is_first = open.receipt.is_none();
    // How it ended is known after all: it is where it was.
    let is_told_late = |known: &Receipt| {
        let place = |it: &Receipt| (it.tx_hash, it.block_hash);
        known.status.is_none() && place(known) == place(&receipt)
    };
    let moved = open.receipt.as_ref().is_some_and(|known| !is_told_late(known));
    if moved {
        metrics::new_fork();
    }
    if let Some(accepted) = open.accepted.filter(|_| is_first) {
        metrics::mined(accepted.elapsed());
    }
    open.unverified = false;
    open.untold_fork = false;
    open.lost = false;
    open.receipt = Some(receipt.clone());
    if is_first {
        let gas = receipt.gas_used as f64 * receipt.effective_gas_price as f64;
        let value = open.newest().and_then(|newest| replace::value_of(&newest.raw));
        book.note_cost(lane, gas + value.unwrap_or_default());
    }
    let Telling { mut data, told } = confirmations::tell(window, &receipt, finality, None, moved);
    if let Some(open) = book.get_mut(id) {
        open.told = told;
    }
    let facts = json!({
        "txHash": receipt.tx_hash, "blockNumber": receipt.block_number, "blockHash": receipt.block_hash,
        "status": receipt.status, "gasUsed": receipt.gas_used.to_string(),
    });
    if let (Some(data), Some(facts)) = (data.as_object_mut(), facts.as_object()) {
        data.extend(facts.clone());
    }
    debug!(txId = %id, signer = %lane.signer, nonce, block = receipt.block_number, moved, "mined");
    let mut change = book.step(id, Step::Mined(receipt.outcome()), data);
    if let Some(change) = &mut change {
        change.receipt = Set::To(receipt);
        change.told = told.map_or(Set::Keep, Set::To);
        change.resubmit_after = Set::Clear;
        change.error = Set::Clear;
        change.wish = WishEnd::Over;
    }
    core.recorder.write(lane, change);
}

/// Who has won, if the mined attempt is not the transaction itself.
fn successor(open: &Open, receipt: &Receipt) -> Option<Successor> {
    let mined = open.attempts.iter().find(|attempt| attempt.hash == receipt.tx_hash)?;
    mined.kind.successor()
}

/// It waits for a person.
pub(super) fn lose(book: &mut Book, id: TxId) {
    if let Some(open) = book.get_mut(id) {
        (open.lost, open.unverified, open.untold_fork) = (true, false, false);
    }
}

/// Its block is no longer canonical, and no canonical block has it; nor that of a transaction that
/// took its nonce.
pub(super) fn unmine(core: &Core, book: &mut Book, id: TxId) {
    let Some(open) = book.get_mut(id) else { return };
    let (lane, nonce) = (open.lane, open.nonce);
    open.unverified = false;
    open.untold_fork = false;
    open.lost = false;
    // It is in no block: somebody has found that out already, and has it on the wire again.
    let Some((number, hash)) = open.block() else { return };
    open.next_check = Instant::now() + core.settings.tx.stale_receipt;
    let was = json!({ "blockNumber": number, "blockHash": hash });
    metrics::new_fork();
    info!(txId = %id, signer = %lane.signer, chain = %lane.chain, nonce, "reorganised out of its block; sent again");
    let data = json!({ "newFork": true, "confirmations": [], "was": was });
    let change = book.step(id, Step::Unmined, data);
    core.recorder.write(lane, change);
}

/// Its own block is canonical still, but blocks on top of it were replaced.
pub(super) fn forked(core: &Core, book: &mut Book, window: &HeaderWindow, heads: &Heads, id: TxId) {
    let Some(open) = book.get_mut(id) else { return };
    let Some(receipt) = open.receipt.clone() else { return };
    let (lane, finality): (_, Finality) = (open.lane, open.finality);
    let still_final = finality.is_reached(receipt.block_number, heads);
    let Telling { data, told } = confirmations::tell(window, &receipt, finality, None, true);
    open.told = told;
    open.untold_fork = false;
    metrics::new_fork();
    let mut change = book.step(id, Step::Forked { still_final }, data);
    if let Some(change) = &mut change {
        change.told = told.map_or(Set::Clear, Set::To);
    }
    core.recorder.write(lane, change);
    if book.get(id).is_some_and(|open| open.standing.state == TxState::Confirmed) {
        book.close(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hole_39_a_fork_takes_only_what_stood_on_the_chain_that_it_replaced() {
        let block = |fork: u8, height: u64| B256::repeat_byte(fork * 16 + height as u8);
        let header =
            |height| Header { height, hash: block(1, height), parent: block(1, height - 1) };
        let replaced: Vec<Header> = (4..=6).map(header).collect();
        for (fork, height, expected) in [
            (1, 2, Touched::Below),
            (1, 3, Touched::Below),
            (1, 4, Touched::Taken),
            (1, 6, Touched::Taken),
            // Of a chain before this one, or of one that another endpoint has shown.
            (2, 5, Touched::Elsewhere),
            (1, 7, Touched::Elsewhere),
        ] {
            assert_eq!(
                touched(&replaced, 3, height, block(fork, height)),
                expected,
                "{fork} {height}"
            );
        }
        assert_eq!(touched(&[], 3, 3, block(1, 3)), Touched::Not);
    }
}
