//! Sending stored bytes.
//!
//! Only bytes that are committed as an attempt ever come here, so whatever is on the wire is on
//! record, whoever sent it and however late. Each endpoint is sent to by itself, and its answer is
//! acted upon when it comes. The order within a lane is kept at each of them: a lane is in at most
//! one batch at a time, lowest nonce first. Many lanes go side by side, and share batches.

#[cfg(feature = "planted-bugs")]
mod planted;
mod queue;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;
use stile_chain::{EndpointSaid, NotAsked, SendClass};
use stile_domain::{AttemptKind, Bytes, Lane, Obstacle, Step, SubState, TxId, TxState};
use stile_store::{Sending, Set, TxChange};
use tokio::sync::Semaphore;
use tracing::{debug, error, warn};

pub(crate) use self::queue::Queues;
use self::queue::{Item, Queue};
use crate::core::Core;
use crate::metrics;
use crate::task;
use crate::tx::abandon;
use crate::tx::book::{Book, Open};
use crate::tx::cause::Cause;
use crate::tx::delivery::{Delivery, Verdict, obstacle};
use crate::tx::replace::{cost, give_up, replace};
use crate::tx::track::Track;

/// Batches on their way to an endpoint at one time.
const BATCHES: usize = 8;

/// How soon it is looked again whether an endpoint is back in use, or a pause of its over.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
const LONGEST_LOOK_AGAIN: Duration = Duration::from_secs(5);

/// How long one waits that every endpoint refuses for now; twice as long each time, up to a minute.
const OBSTACLE_PAUSE: Duration = Duration::from_secs(4);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl Core {
    /// Hands open transactions to the submitters of all endpoints, but for those that have them
    /// already.
    pub(crate) fn submit(&self, track: &Track, ids: impl IntoIterator<Item = TxId>) {
        let mut items: Vec<Vec<Item>> = track.queues.iter().map(|_| Vec::new()).collect();
        {
            let mut book = track.book();
            for id in ids {
                let Some(open) = book.get_mut(id).filter(|open| open.is_unmined()) else {
                    continue;
                };
                let Some(item) = Item::of(open) else { continue };
                open.next_send = None;
                open.taken_told = false;
                for (place, items) in items.iter_mut().enumerate() {
                    if open.deliveries.begin(place) {
                        items.push(item.clone());
                    }
                }
            }
        }
        push(track, items);
    }

    /// Hands transactions to the submitters of those endpoints alone that are to be asked again.
    pub(crate) fn retry(&self, track: &Track, now: Instant) {
        let mut items: Vec<Vec<Item>> = track.queues.iter().map(|_| Vec::new()).collect();
        {
            let mut book = track.book();
            let is_due = |delivery: &Delivery| delivery.again.is_some_and(|at| at <= now);
            let due = book.all_unmined().filter(|open| open.deliveries.iter().any(is_due));
            let due: Vec<TxId> = due.map(|open| open.id).collect();
            for id in due {
                let Some(open) = book.get_mut(id) else { continue };
                let Some(item) = Item::of(open) else { continue };
                for (place, items) in items.iter_mut().enumerate() {
                    if is_due(open.deliveries.at(place)) && open.deliveries.begin(place) {
                        items.push(item.clone());
                        metrics::resubmitted(false);
                    }
                }
            }
        }
        push(track, items);
    }
}

fn push(track: &Track, items: Vec<Vec<Item>>) {
    for (queue, items) in track.queues.iter().zip(items) {
        if !items.is_empty() {
            queue.push(items);
        }
    }
}

/// Each endpoint is sent to by itself: whoever is slow keeps nobody else waiting.
pub(crate) async fn run(core: Arc<Core>, track: Arc<Track>) {
    let queues = track.queues.iter().enumerate();
    join_all(queues.map(|(place, queue)| send_all(&core, &track, place, queue))).await;
}

async fn send_all(core: &Arc<Core>, track: &Arc<Track>, place: usize, queue: &Queue) {
    let batches = Arc::new(Semaphore::new(BATCHES));
    loop {
        let Ok(permit) = Arc::clone(&batches).acquire_owned().await else { return };
        let batch = loop {
            let batch = queue.take();
            if !batch.is_empty() {
                break batch;
            }
            tokio::select! {
                () = core.stopping.cancelled() => return,
                () = queue.ready.notified() => {}
            }
        };
        let (owned, onto) = (Arc::clone(core), Arc::clone(track));
        core.producers.spawn(task::SEND, async move {
            send(&owned, &onto, place, batch).await;
            drop(permit);
        });
    }
}

async fn send(core: &Arc<Core>, track: &Arc<Track>, place: usize, batch: Vec<Item>) {
    let lanes: HashSet<Lane> = batch.iter().map(|item| item.lane).collect();
    let unfunded = track.funds().silent();
    let wanted: Vec<Item> = {
        let mut book = track.book();
        let wanted = batch.into_iter().filter_map(|item| {
            let stopped = unfunded.contains(&item.lane);
            still_wanted(book.get_mut(item.id), place, stopped)
        });
        wanted.collect()
    };
    let mut causes = Vec::new();
    if !wanted.is_empty() {
        #[cfg(not(feature = "planted-bugs"))]
        let raw: Vec<Bytes> = wanted.iter().map(|item| item.raw.clone()).collect();
        #[cfg(feature = "planted-bugs")]
        let raw: Vec<Bytes> = planted::bytes(core, track, &wanted).await;
        let answers = match wanted.iter().any(|item| item.hurried) {
            true => track.pool.send_at_once(place, &raw).await,
            false => track.pool.send_to(place, &raw).await,
        };
        tell_who_takes_none(track, place);
        for (number, item) in wanted.iter().enumerate() {
            let heard = match &answers {
                Ok(said) => match said.get(number) {
                    Some(said) => Ok(said),
                    None => continue,
                },
                Err(not_asked) => Err(not_asked),
            };
            causes.extend(conclude(core, track, place, item, heard).map(|cause| (item.id, cause)));
        }
    }
    if let Some(queue) = track.queues.iter().nth(place) {
        queue.done(&lanes);
    }
    for (id, cause) in causes {
        if cause != Cause::GiveUp {
            replace(core, track, id, cause);
        } else if let Some(testimony) = abandon::ask(core, track, id).await {
            give_up(core, track, id, &testimony);
        }
    }
}

/// Endpoints that take no transactions are counted; where none takes any, that is said aloud, once.
fn tell_who_takes_none(track: &Track, place: usize) {
    let (chain, pool) = (track.pool.chain(), &track.pool);
    metrics::read_only(chain, pool.endpoint_name(place), pool.takes_none(place));
    let all = pool.is_read_only();
    if all && !track.queues.read_only_told.swap(true, Ordering::Relaxed) {
        error!(%chain, "no endpoint of the chain takes transactions: nothing can be sent, and \
               nothing is given up; name one that does in [[chain]] endpoints");
    } else if !all {
        track.queues.read_only_told.store(false, Ordering::Relaxed);
    }
}

/// Its newest attempt, if it is open still, not mined, and its lane not stopped; if not, it is no
/// longer in the submitter's hands. What a caller has asked for is tried on a stopped lane too: it
/// may cost what the account has.
fn still_wanted(open: Option<&mut Open>, place: usize, stopped: bool) -> Option<Item> {
    let open = open?;
    let item = Item::of(open).filter(|item| open.is_unmined() && (!stopped || item.hurried));
    match item {
        Some(_) => {
            open.sent.get_or_insert_with(Instant::now);
        }
        None => open.deliveries.at(place).queued = false,
    }
    item
}

/// What an endpoint's answer means. Answers with why a new attempt is to be made, if one is.
fn conclude(
    core: &Arc<Core>,
    track: &Track,
    place: usize,
    item: &Item,
    heard: Result<&EndpointSaid, &NotAsked>,
) -> Option<Cause> {
    let now = Instant::now();
    let mut book = track.book();
    let open = book.get_mut(item.id)?;
    open.deliveries.at(place).queued = false;
    if let Ok(said) = heard {
        metrics::submitted(said.class.name());
        if said.class.is_taken() && !open.takers.contains(&said.endpoint) {
            open.takers.push(said.endpoint.clone());
        }
    }
    let newest = open.newest().is_some_and(|newest| newest.hash == item.hash);
    if !open.is_unmined() || !newest {
        // Mined before its endpoint had answered, or replaced: only that it was sent is written.
        if open.is_unmined() {
            open.deliveries.at(place).again = Some(now);
        }
        let said = heard.ok()?;
        let mut change = TxChange::new(open.id, open.events, open.standing);
        let (taken, said) = (said.class.is_taken(), json!([said]));
        change.sent = Some(Sending { hash: item.hash, taken, said });
        core.recorder.write(item.lane, Some(change));
        return None;
    }
    let may_be_taken = open.may_be_taken();
    if heard.is_ok_and(|said| said.class == SendClass::NonceTooLow) {
        // One of the attempts is mined, or somebody else's transaction is: ask which, of this one
        // and, since nonces are mined in order, of all below it. What the others say counts as well.
        debug!(txId = %item.id, "nonce too low: receipts are asked for");
        let again = core.settings.tx.resubmit_after.map(|after| now + after);
        open.next_send = open.next_send.or(again);
        let stale = core.settings.tx.stale_receipt;
        book.check_first_up_to(item.lane, item.nonce, now, stale);
    }
    let open = book.get_mut(item.id)?;
    // When this endpoint alone is asked again, if nobody has it and nothing can be concluded.
    let again = match heard {
        Ok(said) => {
            open.answer_lost |= said.answer_lost;
            let delivery = open.deliveries.at(place);
            delivery.hear(said, may_be_taken);
            let transient = matches!(said.class, SendClass::Transient | SendClass::NonceTooHigh);
            transient.then(|| delivery.pause())
        }
        Err(why) => {
            open.deliveries.at(place).pass_over(track.pool.endpoint_name(place), why);
            match why {
                NotAsked::NotInUse(_) => Some(LOOK_AGAIN),
                NotAsked::Paused(left) => Some((*left).clamp(LOOK_AGAIN, LONGEST_LOOK_AGAIN)),
                NotAsked::ReadOnly(_) => None,
            }
        }
    };
    match heard.map(|said| said.class) {
        Ok(SendClass::Accepted | SendClass::Known) => {
            open.deliveries.forget_retries();
            open.hurried = None;
            if !open.taken_told {
                open.taken_told = true;
                taken(core, track, &mut book, item);
            }
            return outvoted(&book, item);
        }
        Ok(SendClass::Unrecognised) if may_be_taken => {
            debug!(txId = %item.id, said = ?heard, "unknown words about what may have been taken");
            let again = match open.standing.state {
                TxState::Submitted => core.settings.tx.resubmit_after,
                _ => Some(pause_after(open.deliveries.refusals())),
            };
            open.next_send = open.next_send.or(again.map(|after| now + after));
        }
        _ => {}
    }
    match open.deliveries.verdict() {
        // Nodes pass it on: whoever has not taken it is not asked again before its time.
        Verdict::Taken => {
            let refused = heard.is_ok_and(|said| said.class != SendClass::Transient);
            if refused {
                let mut change = TxChange::new(open.id, open.events, open.standing);
                let said = json!(open.deliveries.words());
                change.sent = Some(Sending { hash: item.hash, taken: true, said });
                core.recorder.write(item.lane, Some(change));
            }
            outvoted(&book, item)
        }
        Verdict::Refused(class) if obstacle(class).is_some() => {
            held_up(core, track, &mut book, item, class)
        }
        verdict => {
            debug!(txId = %item.id, said = ?heard, "not taken; tried again");
            open.deliveries.at(place).again = again.map(|after| now + after);
            if open.deliveries.nobody_takes() {
                open.next_send = Some(now + LONGEST_LOOK_AGAIN);
            }
            if !open.deliveries.any_queued() {
                let class = match verdict {
                    Verdict::Refused(class) => class,
                    _ => SendClass::Transient,
                };
                keep_word(core, &mut book, item, class);
            }
            None
        }
    }
}

/// An endpoint has it: the first to say so since it was last sent to all of them. What the others
/// say later is not written, unless they refuse.
fn taken(core: &Arc<Core>, track: &Track, book: &mut Book, item: &Item) {
    let (now, settings) = (Instant::now(), &core.settings.tx);
    let Some(open) = book.get_mut(item.id) else { return };
    let given_up = open.newest().is_some_and(|newest| newest.kind == AttemptKind::GiveUp);
    open.not_taken = None;
    open.sends += 1;
    let used_up = settings.max_sends > 0 && open.sends >= settings.max_sends;
    let again = settings.resubmit_after.filter(|_| !used_up);
    open.next_send = again.map(|after| now + after);
    track.funds().taken(item.lane);
    if open.next_bump.is_none() {
        open.next_bump = settings.bump_after.map(|after| now + after);
    }
    if settings.receipt_upon_entry {
        open.next_check = now;
    }
    if open.standing.state == TxState::Allocated
        && let Some(accepted) = open.accepted
    {
        metrics::first_sent(accepted.elapsed());
    }
    let said = json!(open.deliveries.words());
    let change =
        book.step(item.id, Step::Sent, json!({ "txHash": item.hash, "endpoints": said.clone() }));
    let change = change.map(|change| TxChange {
        sent: Some(Sending { hash: item.hash, taken: true, said }),
        resubmit_after: again.map_or(Set::Clear, Set::To),
        // Why it was given up is what its caller wants to know.
        error: if given_up { Set::Keep } else { Set::Clear },
        ..change
    });
    core.recorder.write(item.lane, change);
}

/// Whether what an endpoint says it has taken is given up all the same: nothing below it keeps it from
/// being mined, and the larger part of all endpoints refuse it for good, time and again.
fn outvoted(book: &Book, item: &Item) -> Option<Cause> {
    let open = book.get(item.id)?;
    let is_outvoted = open.deliveries.is_outvoted() && book.is_lowest(open);
    is_outvoted.then_some(Cause::GiveUp)
}

/// Most endpoints that have a say refuse it. Answers with why a new attempt is to be made, if one is.
fn held_up(
    core: &Arc<Core>,
    track: &Track,
    book: &mut Book,
    item: &Item,
    class: SendClass,
) -> Option<Cause> {
    let (now, settings) = (Instant::now(), &core.settings.tx);
    let obstacle = obstacle(class)?;
    let is_lowest = book.get(item.id).is_some_and(|open| book.is_lowest(open));
    let open = book.get_mut(item.id)?;
    let sub_state = open.standing.sub_state;
    let given_up = open.newest().is_some_and(|newest| newest.kind == AttemptKind::GiveUp);
    open.not_taken = None;
    open.hurried = None;
    open.sends += 1;
    open.deliveries.forget_retries();
    let used_up = settings.max_sends > 0 && open.sends >= settings.max_sends;
    let again = pause_after(open.deliveries.refusals());
    open.next_send = Some(now + again);
    let cause = match obstacle {
        Obstacle::Underpriced if !used_up => Some(Cause::Underpriced),
        Obstacle::Rejected if open.deliveries.is_rejected() => Some(Cause::GiveUp),
        _ => None,
    };
    if obstacle == Obstacle::InsufficientFunds {
        // It is sent again once the account can pay, and nothing of the lane before.
        open.next_send = None;
        let needed = cost(&item.raw).unwrap_or_default();
        track.stop_for_funds(item.lane, needed, is_lowest);
    }
    let words = open.deliveries.words();
    let why = words.iter().find(|said| self::obstacle(said.class) == Some(obstacle));
    let why = why.map(|said| said.text.clone());
    let said = json!(words);
    let change = if told(obstacle, sub_state) {
        // Told once; that it goes on is no news, but what was said and when is kept.
        Some(TxChange::new(open.id, open.events, open.standing))
    } else {
        warn!(txId = %item.id, signer = %item.lane.signer, chain = %item.lane.chain,
              nonce = item.nonce, ?obstacle, %said, "the chain's nodes refuse it for now");
        let data = json!({ "txHash": item.hash, "endpoints": said.clone() });
        book.step(item.id, Step::HeldUp(obstacle), data)
    };
    let change = change.map(|change| TxChange {
        sent: Some(Sending { hash: item.hash, taken: false, said }),
        resubmit_after: Set::To(again),
        error: match why {
            Some(why) if !given_up => Set::To(why),
            _ => Set::Keep,
        },
        ..change
    });
    core.recorder.write(item.lane, change);
    cause
}

/// What keeps a lane's lowest from being taken is written down, once as long as it stays the same:
/// nothing else of the lane can be mined before it, and whoever asks is told why.
fn keep_word(core: &Core, book: &mut Book, item: &Item, class: SendClass) {
    let Some(open) = book.get(item.id).filter(|open| book.is_lowest(open)) else { return };
    if open.not_taken == Some(class) {
        return;
    }
    let mut change = TxChange::new(open.id, open.events, open.standing);
    change.sent =
        Some(Sending { hash: item.hash, taken: false, said: json!(open.deliveries.words()) });
    core.recorder.write(item.lane, Some(change));
    if let Some(open) = book.get_mut(item.id) {
        open.not_taken = Some(class);
    }
}

fn pause_after(refusals: u32) -> Duration {
    (OBSTACLE_PAUSE * 2u32.pow(refusals.saturating_sub(1).min(4))).min(LONGEST_PAUSE)
}

fn told(obstacle: Obstacle, sub_state: Option<SubState>) -> bool {
    let told = match obstacle {
        Obstacle::Underpriced => SubState::Underpriced,
        Obstacle::InsufficientFunds => SubState::InsufficientFunds,
        Obstacle::Rejected => SubState::Rejected,
    };
    sub_state == Some(told)
}
