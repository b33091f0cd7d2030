//! Carrying out what the diagnosis proposes.

use std::sync::Arc;

use serde::Serialize;
use serde_json::json;
use stile_domain::{Lane, LaneEventKind, Nonce};
use stile_store::{
    InFlightFrom, LedgerOwner, Mark, MarkOutcome, MarkVerdict, NewLaneEvent, PageLimit,
};
use tracing::warn;

use super::diagnose::{Diagnosis, Remedy, claimed, diagnose};
use super::{CareError, gather, resume};
use crate::core::Core;
use crate::tx::ReplaceError;
use crate::{fill, pause, reconcile, restored, tx};

/// A plan, and what became of it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Repair {
    /// Whether it was carried out.
    pub applied: bool,
    /// What is to be done, in order.
    pub steps: Vec<RepairStep>,
    /// What it was made from.
    pub diagnosis: Diagnosis,
}

/// One step.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RepairStep {
    /// Its name.
    pub kind: String,
    /// What is done, in words.
    pub words: String,
    /// Whether a person must say first that a nonce was never sent.
    pub needs_attestation: bool,
    /// Whether it was done; `None` if it was not tried.
    pub done: Option<bool>,
    /// What came of it.
    pub result: Option<String>,
}

pub(super) async fn repair(
    core: &Arc<Core>,
    lane: Lane,
    apply: bool,
    attest: &[Nonce],
) -> Result<Repair, CareError> {
    let diagnosis = diagnose(gather::gather(core, lane).await?);
    let remedies = diagnosis.findings.iter().filter_map(|finding| finding.remedy.as_ref());
    let mut steps: Vec<RepairStep> = remedies.map(step).collect();
    if apply {
        for step in &mut steps {
            let result = carry_out(core, lane, &diagnosis, &step.kind, attest).await?;
            if let Some((done, words)) = result {
                step.done = Some(done);
                step.result = Some(words);
            }
        }
        let done: Vec<&str> = steps
            .iter()
            .filter(|step| step.done == Some(true))
            .map(|step| step.kind.as_str())
            .collect();
        if !done.is_empty() {
            warn!(signer = %lane.signer, chain = %lane.chain, ?done, "repaired by an operator");
            let data = json!({ "steps": done, "attested": attest });
            let event = NewLaneEvent { kind: LaneEventKind::Repaired, data };
            core.store.tell_lane(&core.holder.node, lane, &event).await?;
        }
    }
    Ok(Repair { applied: apply, steps, diagnosis })
}

fn step(remedy: &Remedy) -> RepairStep {
    RepairStep {
        kind: remedy.kind.clone(),
        words: remedy.words.clone(),
        needs_attestation: remedy.needs_attestation,
        done: None,
        result: None,
    }
}

/// Does one step. `None` if it is nothing that Stile could do.
async fn carry_out(
    core: &Arc<Core>,
    lane: Lane,
    diagnosis: &Diagnosis,
    kind: &str,
    attest: &[Nonce],
) -> Result<Option<(bool, String)>, CareError> {
    Ok(match kind {
        // Whatever else is found: who paused it by hand has a reason that Stile does not know.
        "resume" if pause::is_by_person(core, lane).await? => {
            let words = format!("a person has paused it: stile signer resume {}", lane.signer);
            Some((false, words))
        }
        "resume" => {
            let resumption = resume::resume(core, lane, false).await?;
            Some((resumption.resumed, resumption.plan.join("; ")))
        }
        "fill" => Some(close_gap(core, lane, diagnosis, attest).await?),
        "attest" => Some(take_word(core, lane, diagnosis, attest).await?),
        "resend" => Some(send_again(core, lane).await?),
        "bump" => Some(raise(core, diagnosis).await?),
        _ => None,
    })
}

const ELSEWHERE: &str = "another node holds the signer: run it there";

/// Makes an empty transaction for the nonce that the chain waits for.
async fn close_gap(
    core: &Arc<Core>,
    lane: Lane,
    diagnosis: &Diagnosis,
    attest: &[Nonce],
) -> Result<(bool, String), CareError> {
    let vouched = diagnosis.facts.chain_nonce.is_some_and(|nonce| attest.contains(&nonce));
    if claimed(&diagnosis.facts).is_some() && !vouched {
        return Ok((false, "nobody has said that it was never sent".to_owned()));
    }
    core.acquire(&[lane]).await?;
    let slot = core.lanes.slot(lane);
    let (Some(claim), Some(track)) = (slot.claim(), core.tracks.get(lane.chain)) else {
        return Ok((false, ELSEWHERE.to_owned()));
    };
    if restored::is_marked(core, lane).await? {
        let words = "nothing was done: the database was restored. The gap is filled by itself once what used the nonces below is \
             read and every endpoint says that its pool has nothing there; else settle it (stile signer restored)";
        return Ok((false, words.to_owned()));
    }
    let compared = reconcile::compare(core, track, &[lane]).await.and_then(|mut all| all.pop());
    let Some(comparison) = compared else {
        return Ok((false, "the chain does not answer".to_owned()));
    };
    reconcile::own_up(core, track, &comparison, attest).await?;
    if !core.refresh(lane).await {
        let words = "nothing was done: the chain, or the store, does not say which nonces are free";
        return Ok((false, words.to_owned()));
    }
    let gaps: Vec<_> = {
        let mut work = slot.work.lock().await;
        work.planner(&claim).map(|planner| planner.kept().collect()).unwrap_or_default()
    };
    if gaps.is_empty() {
        let words = "nothing was done: no nonce is known to be free below what is in flight";
        return Ok((false, words.to_owned()));
    }
    let filled = fill::fill(core, &slot, &gaps).await?;
    Ok((!filled.made.is_empty(), filled.words()))
}

/// Takes a person's word that the nonce of a silent caller was never sent.
async fn take_word(
    core: &Arc<Core>,
    lane: Lane,
    diagnosis: &Diagnosis,
    attest: &[Nonce],
) -> Result<(bool, String), CareError> {
    let Some(nonce) = diagnosis.facts.chain_nonce.filter(|nonce| attest.contains(nonce)) else {
        return Ok((false, "nobody has said that it was never sent".to_owned()));
    };
    let owner = core.store.nonce_owners(lane, nonce, 1).await?.into_iter().next();
    let Some(LedgerOwner::Hold(hold)) = owner.map(|owner| owner.owner) else {
        return Ok((false, format!("nonce {nonce} is with no caller any more")));
    };
    let verdict = MarkVerdict::Recyclable("an operator says that it was never sent".to_owned());
    let mark = Mark { lane, nonce, hold: hold.id, verdict };
    match core.store.mark(std::slice::from_ref(&mark)).await?.pop() {
        Some(MarkOutcome::Done(_)) => {
            core.lanes.slot(lane).gave_back();
            core.refresh(lane).await;
            Ok((true, format!("nonce {nonce} is given back")))
        }
        outcome => Ok((false, format!("its caller has said otherwise meanwhile: {outcome:?}"))),
    }
}

/// What is read, and sent again, in one go.
const SEND_AGAIN_PAGE: PageLimit = PageLimit { rows: 500, bytes: 8 << 20 };

/// Sends the stored bytes of all that is in flight. Whatever is on record may be sent by anybody.
async fn send_again(core: &Arc<Core>, lane: Lane) -> Result<(bool, String), CareError> {
    let Some(track) = core.tracks.get(lane.chain) else {
        return Ok((false, ELSEWHERE.to_owned()));
    };
    let (mut sent, mut taken) = (0, 0);
    let mut left = vec![InFlightFrom::start(lane)];
    while !left.is_empty() {
        let page = core.store.in_flight_page(&left, SEND_AGAIN_PAGE).await?;
        let unmined =
            page.txs.iter().filter(|open| open.tx.receipt.is_none() && open.tx.rival.is_none());
        let raw: Vec<_> = unmined
            .filter_map(|open| open.attempts.last().map(|newest| newest.raw.clone()))
            .collect();
        let answers = track.pool.send_raw(&raw).await;
        sent += raw.len();
        taken += answers.iter().filter(|answer| answer.verdict.is_taken()).count();
        left = [page.unread, page.more].concat();
    }
    if let Some(claim) = core.lanes.slot(lane).claim() {
        tx::adopt(core, vec![claim.lane()]);
    }
    Ok((taken > 0, format!("{taken} of {sent} were taken by an endpoint")))
}

/// Has the transaction that the chain waits for offer more.
async fn raise(core: &Arc<Core>, diagnosis: &Diagnosis) -> Result<(bool, String), CareError> {
    let head = diagnosis.facts.head.as_ref().and_then(|head| head.tx.as_ref());
    let Some(tx) = head else { return Ok((false, "there is nothing to raise".to_owned())) };
    match tx::speed_up(core, tx.tx_id, None).await {
        Ok(_) => Ok((true, format!("{} was asked to offer more", tx.tx_id))),
        Err(ReplaceError::Store(error)) => Err(error.into()),
        Err(error) => Ok((false, error.to_string())),
    }
}
