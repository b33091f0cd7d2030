//! Another transaction at the nonce of one of ours: our own empty one, or somebody else's.
//!
//! It is followed as ours is: it counts while its block is canonical, a reorganisation takes it
//! back, and only once it is as final as was asked has ours failed.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;
use stile_domain::{B256, Receipt, Rival, Step, Successor, TxId};
use stile_store::{NewTx, Set, Tx, WishEnd};
use tracing::{info, warn};
use uuid::Uuid;

use crate::core::Core;
use crate::metrics;
use crate::tx::book::Book;
use crate::tx::track::Track;

/// One of our own empty transactions is in a canonical block.
pub(crate) fn by_receipt(core: &Core, book: &mut Book, id: TxId, by: Successor, receipt: &Receipt) {
    let rival = Rival {
        by,
        tx_hash: Some(receipt.tx_hash),
        block_number: receipt.block_number,
        block_hash: receipt.block_hash,
    };
    overtaken(core, book, id, rival);
}

/// Another transaction at its nonce is in a canonical block: for the first time, or in another one
/// than before. `false` if that is no news.
pub(crate) fn overtaken(core: &Core, book: &mut Book, id: TxId, rival: Rival) -> bool {
    let Some(open) = book.get_mut(id) else { return false };
    if !open.loses_to(&rival) {
        return false;
    }
    let (lane, nonce) = (open.lane, open.nonce);
    open.unverified = false;
    open.untold_fork = false;
    info!(txId = %id, signer = %lane.signer, chain = %lane.chain, nonce, by = %rival.by,
          block = rival.block_number, "another transaction has its nonce");
    let Some(mut change) = book.step(id, Step::Overtaken(rival.by), json!(rival)) else {
        return false;
    };
    if let Some(open) = book.get_mut(id) {
        open.rival = Some(rival);
    }
    change.rival = Set::To(rival);
    change.resubmit_after = Set::Clear;
    change.wish = WishEnd::Over;
    core.recorder.write(lane, Some(change));
    true
}

/// What is to be made anew for those of the due that asked for it.
pub(crate) async fn successors(
    core: &Arc<Core>,
    track: &Track,
    due: &[(TxId, u64, B256)],
) -> HashMap<TxId, Option<NewTx>> {
    let anew: Vec<TxId> = {
        let book = track.book();
        let due = due.iter().filter_map(|(id, _, _)| book.get(*id));
        due.filter(|open| open.resend && is_outsiders(open.rival)).map(|open| open.id).collect()
    };
    if anew.is_empty() {
        return HashMap::new();
    }
    match core.store.txs(&anew).await {
        Ok(txs) => txs.into_iter().flatten().map(|tx| (tx.id, successor(&tx))).collect(),
        Err(error) => {
            metrics::store_failed("txs");
            warn!(%error, "what is to be made anew could not be read; tried again");
            HashMap::new()
        }
    }
}

fn is_outsiders(rival: Option<Rival>) -> bool {
    rival.is_some_and(|rival| rival.by == Successor::Outsider)
}

/// The same once more, under a name of its own; the request id stays with the first. `None` if it
/// was made anew before.
fn successor(lost: &Tx) -> Option<NewTx> {
    if lost.replaced_by.is_some() {
        return None;
    }
    Some(NewTx {
        id: TxId(Uuid::now_v7()),
        tenant: lost.tenant.clone(),
        lane: lost.lane,
        request_id: None,
        payload: lost.payload.clone(),
        request_hash: lost.request_hash,
        finality: lost.finality,
        gas_limit: lost.gas_limit,
        replaces: Some(lost.id),
    })
}

/// The other transaction is as final as was asked: ours has failed.
pub(crate) fn settled(
    core: &Core,
    book: &mut Book,
    id: TxId,
    successors: &HashMap<TxId, Option<NewTx>>,
) {
    let Some(open) = book.get(id) else { return };
    let Some(rival) = open.rival else { return };
    let (lane, nonce, anew) = (open.lane, open.nonce, open.resend && is_outsiders(open.rival));
    let successor = match successors.get(&id) {
        Some(successor) => successor.as_ref(),
        // Looked at again in the next pass.
        None if anew => return,
        None => None,
    };
    let mut data = json!(rival);
    if let Some(successor) = successor {
        data["replacedBy"] = successor.id.to_string().into();
    }
    let Some(mut change) = book.finish(id, Step::Superseded(rival.by), data) else { return };
    change.successor = successor.cloned().map(Box::new);
    if rival.by == Successor::Outsider {
        let which = rival.tx_hash.map_or("a transaction".to_owned(), |hash| hash.to_string());
        let why = format!(
            "its nonce {nonce} went to {which} in block {}, which is not Stile's",
            rival.block_number
        );
        change.error = Set::To(why);
    }
    metrics::superseded(rival.by.name());
    info!(txId = %id, signer = %lane.signer, chain = %lane.chain, nonce, by = %rival.by,
          successor = successor.map(|tx| tx.id.to_string()), "failed: its nonce is final with another transaction");
    core.recorder.write(lane, Some(change));
}
