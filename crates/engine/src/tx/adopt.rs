//! Taking up what a lane's last holder left, and letting go of it.
//!
//! It is read page by page, see [`stile_store::InFlightPage`]: of every lane the lowest nonce first,
//! since nothing else of the lane is mined before it. What is read and not yet in the book is one
//! page for each reader, and there are few readers at a time, however many lanes have come.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use stile_domain::{Lane, TxId};
use stile_store::{InFlightFrom, InFlightPage, OpenTx, PageLimit};
use tracing::{debug, warn};

use crate::core::Core;
use crate::metrics;
use crate::task;
use crate::tx::bind;
use crate::tx::book::{Open, Reading};

/// Lanes read by one statement.
const LANES_A_PAGE: usize = 200;

/// How much one answer of the store may have.
const PAGE: PageLimit = PageLimit { rows: 500, bytes: 8 << 20 };

/// How many pages are read at one time.
pub(crate) const READERS: usize = 2;

/// How long it takes until a page is asked for again that could not be read; twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Reads what is in flight on lanes that have just come to this node, sends stored bytes again, and
/// has everything compared with the chain. Nothing is signed anew.
pub(crate) fn adopt(core: &Arc<Core>, lanes: Vec<Lane>) {
    if core.stopping.is_cancelled() {
        return;
    }
    let mut readings = HashMap::with_capacity(lanes.len());
    for lane in lanes {
        if let Some(track) = core.tracks.get(lane.chain) {
            readings.insert(lane, track.book().begin_reading(lane));
        }
    }
    if readings.is_empty() {
        return;
    }
    let owned = Arc::clone(core);
    core.producers.spawn(task::ADOPT, async move { read(&owned, readings).await });
}

/// Reads a lane again, because the store knows more of it than this node.
pub(crate) fn again(core: &Arc<Core>, lane: Lane) {
    give_up(core, lane);
    adopt(core, vec![lane]);
}

/// Forgets a lane that is somebody else's.
pub(crate) fn give_up(core: &Core, lane: Lane) {
    if let Some(track) = core.tracks.get(lane.chain) {
        let mut book = track.book();
        book.drop_lane(lane);
        core.recorder.forget(lane);
    }
}

/// What is left to be read, in the order in which it is.
#[derive(Debug)]
struct Left(VecDeque<InFlightFrom>);

impl Left {
    fn new(lanes: impl Iterator<Item = Lane>) -> Self {
        let mut lanes: Vec<Lane> = lanes.collect();
        lanes.sort_unstable();
        Self(lanes.into_iter().map(InFlightFrom::start).collect())
    }

    /// The lanes of the next page.
    fn next(&mut self) -> Vec<InFlightFrom> {
        let count = self.0.len().min(LANES_A_PAGE);
        self.0.drain(..count).collect()
    }

    /// Lanes of which nothing has been read go before all others, those with more wait for the
    /// others' turn.
    fn put_back(&mut self, unread: Vec<InFlightFrom>, more: Vec<InFlightFrom>) {
        unread.into_iter().rev().for_each(|from| self.0.push_front(from));
        self.0.extend(more);
    }
}

async fn read(core: &Arc<Core>, readings: HashMap<Lane, Reading>) {
    let is_current = |lane: Lane| {
        let track = core.tracks.get(lane.chain);
        readings
            .get(&lane)
            .is_some_and(|it| track.is_some_and(|track| track.book().is_current(lane, *it)))
    };
    let (mut left, mut pause) = (Left::new(readings.keys().copied()), FIRST_PAUSE);
    let mut count = 0;
    loop {
        let mut asked = left.next();
        if asked.is_empty() {
            break;
        }
        // Whoever has dropped a lane since does not want what was left of it.
        asked.retain(|from| is_current(from.lane));
        if asked.is_empty() {
            continue;
        }
        let page = {
            let Ok(_turn) = core.tracks.readers.acquire().await else { return };
            let began = Instant::now();
            match core.store.in_flight_page(&asked, PAGE).await {
                Ok(InFlightPage { txs, unread, more }) => {
                    count += txs.len();
                    take_in(core, txs, began, &readings);
                    Some((unread, more))
                }
                Err(error) => {
                    metrics::store_failed("in_flight_page");
                    warn!(%error, lanes = asked.len(),
                          "transactions in flight could not be read; tried again");
                    None
                }
            }
        };
        let Some((unread, more)) = page else {
            tokio::select! {
                () = core.stopping.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
            left.put_back(asked, Vec::new());
            continue;
        };
        pause = FIRST_PAUSE;
        let ended = ended(&asked, &unread, &more);
        left.put_back(unread, more);
        finish(core, &ended, &readings).await;
    }
    debug!(node = %core.holder.node, lanes = readings.len(), count, "transactions in flight taken up");
}

/// The lanes that have been read to their end.
fn ended(asked: &[InFlightFrom], unread: &[InFlightFrom], more: &[InFlightFrom]) -> Vec<Lane> {
    let left: std::collections::HashSet<Lane> =
        unread.iter().chain(more).map(|from| from.lane).collect();
    asked.iter().map(|from| from.lane).filter(|lane| !left.contains(lane)).collect()
}

/// All that was in flight on these lanes is in the book: what is done is compared with the chain,
/// and nonces may be bound.
async fn finish(core: &Arc<Core>, lanes: &[Lane], readings: &HashMap<Lane, Reading>) {
    let mut known = Vec::with_capacity(lanes.len());
    for lane in lanes {
        let (Some(track), Some(reading)) = (core.tracks.get(lane.chain), readings.get(lane)) else {
            continue;
        };
        if track.book().end_reading(*lane, *reading) {
            track.adopted().push(*lane);
            track.look.notify_one();
            known.push(*lane);
        }
    }
    bind::wake_many(core, &known).await;
}

fn take_in(core: &Arc<Core>, txs: Vec<OpenTx>, began: Instant, readings: &HashMap<Lane, Reading>) {
    let now = Instant::now();
    let mut to_send: Vec<(Lane, TxId)> = Vec::new();
    for tx in txs {
        let (lane, id) = (tx.tx.lane, tx.tx.id);
        let (Some(track), Some(reading)) = (core.tracks.get(lane.chain), readings.get(&lane))
        else {
            continue;
        };
        let mut book = track.book();
        // Whoever is working the lane at this very moment knows more, also of those that were done
        // with since this was read.
        let known = book.get(id).is_some() || book.closed_since(id, began);
        let ours = core.lanes.slot(lane).claim().is_some();
        if known || !ours || !book.is_current(lane, *reading) {
            continue;
        }
        let Some(open) = Open::read(tx, now) else { continue };
        if open.is_unmined() {
            to_send.push((lane, id));
        }
        book.insert(open);
    }
    for track in core.tracks.iter() {
        let chain = track.pool.chain();
        let ids = to_send.iter().filter(|(lane, _)| lane.chain == chain).map(|(_, id)| *id);
        core.submit(track, ids);
    }
}

#[cfg(test)]
mod tests {
    use stile_domain::{Address, ChainId};

    use super::*;

    fn lane(number: u16) -> Lane {
        let signer = Address::left_padding_from(&number.to_be_bytes());
        Lane::new(ChainId::new(1).unwrap(), signer)
    }

    #[test]
    fn hole_36_every_lane_is_read_once_before_any_is_read_on() {
        let mut left = Left::new((0..500).map(lane));
        let (first, second) = (left.next(), left.next());
        assert_eq!((first.len(), second.len()), (LANES_A_PAGE, LANES_A_PAGE));
        // Of the first page's lanes, ten did not fit and all others have more.
        let (unread, rest) = first.split_at(10);
        let more = |from: &InFlightFrom| InFlightFrom { nonce: from.nonce + 3, ..*from };
        left.put_back(unread.to_vec(), rest.iter().map(more).collect());
        left.put_back(Vec::new(), second.iter().map(more).collect());
        let order: Vec<InFlightFrom> = std::iter::repeat_with(|| left.next())
            .take_while(|page| !page.is_empty())
            .flatten()
            .collect();
        assert_eq!(order.len(), 500);
        assert_eq!(order[..10], *unread, "what has waited longest");
        assert!(order[..110].iter().all(|from| from.nonce == 0), "then what nobody has read yet");
        assert!(order[110..].iter().all(|from| from.nonce == 3), "then the others, once more");
    }

    #[test]
    fn lanes_in_no_list_are_read_to_their_end() {
        let from = |number: u16| InFlightFrom::start(lane(number));
        let asked = [from(1), from(2), from(3), from(4)];
        assert_eq!(ended(&asked, &[from(2)], &[from(4)]), [lane(1), lane(3)]);
    }
}
