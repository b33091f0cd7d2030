//! Takes bare nonces, signs by itself and says what became of them: in time, too late, or never sent.

use std::time::Duration;

use super::caller::Caller;
use crate::evidence::{Ask, Own};
use crate::run::HOLD_MS;
use crate::run::chain::Transfer;
use crate::run::diary::now;

pub(super) async fn run(mut caller: Caller, lane: usize) {
    let signer = caller.stage.lanes[lane].clone();
    while !caller.stage.is_over() {
        let Some((nonce, hold_id)) = allocate(&mut caller, &signer).await else { continue };
        match caller.random.below(10) {
            0..6 => use_it(&mut caller, &signer, nonce, &hold_id).await,
            6..8 => {
                // Later than agreed: nobody else may have been given the nonce meanwhile.
                tokio::time::sleep(Duration::from_millis(HOLD_MS + 3_000)).await;
                use_it(&mut caller, &signer, nonce, &hold_id).await;
            }
            _ => {
                caller.pause(0, 1_000).await;
                give_back(&mut caller, &signer, nonce, &hold_id).await;
            }
        }
        caller.pause(300, 1_500).await;
    }
}

/// A nonce, asked for under a name, so that a lost answer is not a lost nonce.
pub(super) async fn allocate(caller: &mut Caller, signer: &str) -> Option<(u64, String)> {
    let ask = Ask::Allocate { signer: signer.to_owned(), key: caller.fresh_name() };
    let answer = caller.insist(&ask).await;
    let hold_id = answer.hold_id().filter(|_| answer.is_success())?.to_owned();
    Some((answer.nonce()?, hold_id))
}

async fn use_it(caller: &mut Caller, signer: &str, nonce: u64, hold_id: &str) {
    let wei = caller.stage.amount();
    let transfer = Transfer { from: signer, nonce, wei, max_fee_gwei: 200, tip_gwei: 3 };
    let (raw, hash) = loop {
        match caller.stage.chain.sign(transfer).await {
            Ok(signed) => break signed,
            Err(error) => {
                eprintln!("nonce {nonce} of {signer} cannot be signed for: {error}");
                caller.pause(500, 1_000).await;
            }
        }
    };
    caller.stage.diary.own(Own {
        at: now(),
        signer: signer.to_owned(),
        nonce,
        hash: hash.clone(),
        hold_id: Some(hold_id.to_owned()),
    });
    // Refused, it is sent again by whoever keeps it.
    let _ = caller.stage.chain.send(&raw).await;
    caller.stage.kept.lock().unwrap().push((raw, hash.clone()));
    caller.pause(0, 500).await;
    let (signer, hold_id) = (signer.to_owned(), hold_id.to_owned());
    caller.insist(&Ask::Used { signer, nonce, hold_id, tx_hash: hash }).await;
}

pub(super) async fn give_back(caller: &mut Caller, signer: &str, nonce: u64, hold_id: &str) {
    let (signer, hold_id) = (signer.to_owned(), hold_id.to_owned());
    caller.insist(&Ask::Recyclable { signer, nonce, hold_id }).await;
}
