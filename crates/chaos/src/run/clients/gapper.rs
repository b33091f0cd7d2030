//! Leaves a gap below a transaction, on a lane where nothing else comes that would close it.

use super::caller::Caller;
use super::holder::{allocate, give_back};
use crate::evidence::{Ask, Gas};

/// How often it is looked whether a gap is closed, half a second apart, before another one is left.
const LOOKS: usize = 40;

pub(super) async fn run(mut caller: Caller, lane: usize) {
    let signer = caller.stage.lanes[lane].clone();
    while !caller.stage.is_over() {
        if let Some(nonce) = leave_one(&mut caller, &signer).await {
            is_closed(&mut caller, &signer, nonce).await;
        }
        caller.pause(300, 1_500).await;
    }
    // Once more with nobody in the way: whatever else a run was, it has seen a gap filled.
    leave_one(&mut caller, &signer).await;
}

/// Answers with the nonce that is missing.
async fn leave_one(caller: &mut Caller, signer: &str) -> Option<u64> {
    let (nonce, hold_id) = allocate(caller, signer).await?;
    let (wei, request_id) = (caller.stage.amount(), caller.fresh_name());
    let ask = Ask::Send { signer: signer.to_owned(), request_id, wei, gas: Gas::Stated };
    // Asked again until it has a nonce, which is above the one in hand, and for long enough to be on
    // the wire; but not for ever, as its lane may have no holder now.
    for _ in 0..20 {
        let answer = caller.insist(&ask).await;
        caller.pause(200, 400).await;
        if answer.nonce().is_some() {
            break;
        }
    }
    give_back(caller, signer, nonce, &hold_id).await;
    Some(nonce)
}

/// Waits for a gap to be closed: the next transaction would close it otherwise, and not Stile. Not for
/// ever, as faults may keep it open.
async fn is_closed(caller: &mut Caller, signer: &str, nonce: u64) {
    for _ in 0..LOOKS {
        let count = caller.stage.chain.count(signer, "latest").await;
        if count.is_ok_and(|count| count > nonce) {
            return;
        }
        caller.pause(500, 500).await;
    }
}
