//! Hands over transfers, repeats some on purpose, cancels some and speeds some up.

use super::caller::Caller;
use crate::evidence::Ask;
use crate::run::QUIET_LANE;

pub(super) async fn run(mut caller: Caller) {
    while !caller.stage.is_over() {
        transfer(&mut caller).await;
        caller.pause(100, 700).await;
    }
}

async fn transfer(caller: &mut Caller) {
    let lane = caller.random.place(QUIET_LANE);
    let signer = caller.stage.lanes[lane].clone();
    let wei = caller.stage.amount();
    let request_id = caller.fresh_name();
    let ask = Ask::Send { signer: signer.clone(), request_id: request_id.clone(), wei };
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
            let other = Ask::Send { signer, request_id, wei: wei + 500_000_000 };
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
