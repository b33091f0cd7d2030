//! Hands over transfers, repeats some on purpose, cancels some and speeds some up.

use super::caller::Caller;
use crate::evidence::{Ask, Gas};
use crate::run::QUIET_LANE;

/// How often a transaction is handed over that cannot be estimated.
const HARD_TRIES: usize = 5;

pub(super) async fn run(mut caller: Caller) {
    while !caller.stage.is_over() {
        let hard = caller.stage.hard_to_estimate.lock().unwrap().pop();
        if let Some(lane) = hard {
            never_estimated(&mut caller, lane).await;
        }
        transfer(&mut caller).await;
        caller.pause(100, 700).await;
    }
}

/// One that nobody answers to the estimate of. It may be refused at the door; if it is taken, it comes to
/// an end like any other, and holds up nobody.
async fn never_estimated(caller: &mut Caller, lane: usize) {
    let (signer, wei) = (caller.stage.lanes[lane].clone(), caller.stage.amount());
    let request_id = caller.fresh_name();
    let ask = Ask::Send { signer, request_id, wei, gas: Gas::NeverEstimated };
    // Not for ever: a door at which it is estimated never opens to it.
    for _ in 0..HARD_TRIES {
        if caller.ask(&ask).await.status().is_some_and(|status| status / 100 != 5) {
            return;
        }
    }
}

async fn transfer(caller: &mut Caller) {
    let lane = caller.random.place(QUIET_LANE);
    let signer = caller.stage.lanes[lane].clone();
    let wei = caller.stage.amount();
    let request_id = caller.fresh_name();
    let gas = match caller.random.below(100) {
        0..12 => Gas::Estimated,
        12..14 => Gas::TooLittle,
        _ => Gas::Stated,
    };
    let ask = Ask::Send { signer: signer.clone(), request_id: request_id.clone(), wei, gas };
    let answer = caller.insist(&ask).await;
    let Some(tx_id) = answer.tx_id().filter(|_| answer.is_success()).map(str::to_owned) else {
        return;
    };
    match caller.random.below(100) {
        0..15 => {
            caller.insist(&ask).await;
        }
        15..20 => {
            // The same name for something else.
            let other = Ask::Send { signer, request_id, wei: wei + 500_000_000, gas };
            caller.insist(&other).await;
        }
        20..35 => {
            caller.pause(0, 2_500).await;
            caller.insist(&Ask::Cancel { tx_id }).await;
        }
        35..42 => {
            caller.pause(0, 1_500).await;
            caller.insist(&Ask::SpeedUp { tx_id }).await;
        }
        _ => {}
    }
}
