//! One reader of the stream for all its listeners.
//!
//! A page that was read is shown to everybody who listens, so a listener costs the database nothing
//! while it keeps up. A page is good for a listener that has read up to where it begins, or further in
//! the same history; who is not there, because it has just come, was too slow or comes from another
//! history, reads by itself until it has caught up. So nothing is missed and nothing comes twice,
//! whatever order things happen in: see [`Page::is_good_for`].

use std::sync::{Arc, OnceLock};

use stile_engine::Transactions;
use stile_store::{StoreError, StreamEvent, StreamPosition};
use tokio::sync::{Mutex, Notify, broadcast};

use super::{PAGE, PATIENCE, POLL};
use crate::measure;

/// Pages kept for listeners that are a little behind.
const PAGES: usize = 64;

/// What was read at once.
#[derive(Debug)]
pub(super) struct Page {
    /// Where it was read from.
    from: StreamPosition,
    /// Where it ends.
    pub(super) to: StreamPosition,
    pub(super) events: Vec<Entry>,
}

/// An event, and its text once somebody has asked for it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) event: StreamEvent,
    text: OnceLock<Option<String>>,
}

impl Entry {
    /// Whether a listener that has read up to here has not had it. A change of history leads back, and
    /// always comes alone.
    pub(super) fn comes_after(&self, position: StreamPosition) -> bool {
        let leads_back = matches!(self.event, StreamEvent::HistoryChanged(_));
        leads_back || self.event.position() > position
    }

    /// Its text, made once for all.
    pub(super) fn text(&self, make: impl FnOnce(&StreamEvent) -> Option<String>) -> Option<&str> {
        self.text.get_or_init(|| make(&self.event)).as_deref()
    }

    #[cfg(test)]
    pub(super) fn has_text(&self) -> bool {
        self.text.get().is_some()
    }
}

impl Page {
    /// `None` if there was nothing.
    pub(super) fn new(from: StreamPosition, events: Vec<StreamEvent>) -> Option<Self> {
        let to = events.last()?.position();
        let entry = |event| Entry { event, text: OnceLock::new() };
        Some(Self { from, to, events: events.into_iter().map(entry).collect() })
    }

    /// Whether a listener that has read up to here may take what it has not read of this page, and be
    /// sure that nothing is missing in between.
    pub(super) fn is_good_for(&self, position: StreamPosition) -> bool {
        if position == self.from {
            return true;
        }
        // Whoever is in another history has another way to go on.
        let leads_on = |event: &Entry| !matches!(event.event, StreamEvent::HistoryChanged(_));
        position.history() == self.from.history()
            && position.history() == self.to.history()
            && position >= self.from
            && self.events.iter().all(leads_on)
    }
}

/// Reads for all.
#[derive(Debug)]
pub(crate) struct Hub {
    pages: broadcast::Sender<Arc<Page>>,
    /// How far was read; `None` while nobody listens.
    position: Mutex<Option<StreamPosition>>,
    wanted: Notify,
}

impl Default for Hub {
    fn default() -> Self {
        let (pages, _) = broadcast::channel(PAGES);
        Self { pages, position: Mutex::default(), wanted: Notify::new() }
    }
}

impl Hub {
    /// Every page from now on. Whatever is not in them can be read already when this returns.
    pub(super) async fn listen(
        &self,
        transactions: &Transactions,
    ) -> Result<broadcast::Receiver<Arc<Page>>, StoreError> {
        let mut position = self.position.lock().await;
        if position.is_none() {
            *position = Some(transactions.stream_end().await?);
        }
        // While the place is held nobody says that nobody listens.
        let pages = self.pages.subscribe();
        self.wanted.notify_one();
        Ok(pages)
    }

    /// Where to read on; `None` if nobody listens.
    async fn place(&self) -> Option<StreamPosition> {
        let mut position = self.position.lock().await;
        if self.pages.receiver_count() == 0 {
            *position = None;
        }
        *position
    }

    /// Reads while somebody listens, for ever.
    pub(crate) async fn run(&self, transactions: &Transactions) {
        let mut written = transactions.written();
        loop {
            let Some(from) = self.place().await else {
                self.wanted.notified().await;
                continue;
            };
            written.borrow_and_update();
            measure::stream_read("all");
            match transactions.events_after(from, PAGE).await.map(|events| Page::new(from, events))
            {
                Ok(Some(page)) => {
                    *self.position.lock().await = Some(page.to);
                    // It fails if nobody listens any more, which is seen next.
                    let _ = self.pages.send(Arc::new(page));
                }
                Ok(None) => {
                    // Other nodes' entries come unannounced.
                    let _ = tokio::time::timeout(POLL, written.changed()).await;
                }
                Err(error) => {
                    tracing::debug!(%error, "the stream of events waits for the database");
                    tokio::time::sleep(PATIENCE).await;
                }
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::rest::Rest;
    use super::*;

    fn at(text: &str) -> StreamPosition {
        text.parse().unwrap()
    }

    #[test]
    fn a_page_is_good_for_those_who_have_read_up_to_it() {
        let (one, other) = ("00000000000000aa", "00000000000000bb");
        let page = |from: &str, to: &str| Page { from: at(from), to: at(to), events: Vec::new() };
        let plain = page(&format!("5-2-{one}"), &format!("9-1-{one}"));
        for (position, good) in [
            (format!("5-2-{one}"), true),
            (format!("5-3-{one}"), true),
            (format!("9-1-{one}"), true),
            (format!("12-0-{one}"), true),
            // Something may lie in between.
            (format!("5-1-{one}"), false),
            (format!("4-9-{one}"), false),
            (format!("5-2-{other}"), false),
            (format!("7-2-{other}"), false),
            ("5-2".to_owned(), false),
        ] {
            assert_eq!(plain.is_good_for(at(&position)), good, "{position}");
        }
        // The history changed on the way: only whoever was at the same place goes the same way.
        let change = page(&format!("5-2-{one}"), &format!("3-0-{other}"));
        for (position, good) in [
            (format!("5-2-{one}"), true),
            (format!("6-2-{one}"), false),
            (format!("4-2-{other}"), false),
        ] {
            assert_eq!(change.is_good_for(at(&position)), good, "{position}");
        }
    }

    pub(crate) fn event(number: u64) -> StreamEvent {
        StreamEvent::Lane(stile_store::LaneEvent {
            position: at(&format!("{number}-1-00000000000000aa")),
            lane: stile_domain::Lane::new(
                stile_domain::ChainId::new(1).unwrap(),
                stile_domain::Address::ZERO,
            ),
            kind: stile_domain::LaneEventKind::Paused,
            at: jiff::Timestamp::UNIX_EPOCH,
            node: stile_domain::NodeId("n".to_owned()),
            fencing_token: None,
            data: serde_json::Value::Null,
        })
    }

    /// Whatever pages a listener does not get, and whenever it comes, it has every event once.
    #[test]
    fn nothing_is_missed_and_nothing_comes_twice_whatever_pages_are_lost() {
        let place = |number: u64| event(number).position();
        let read = |from: u64, most: u64, written: u64| {
            let events = (from + 1..=written.min(from + most)).map(event).collect();
            Page::new(place(from), events)
        };
        let mut seed = 7_u64;
        let mut random = |below: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for _ in 0..50 {
            let (mut written, mut shared, begin) = (random(20), 0, random(5));
            let (mut seen, mut is_behind) = (begin, true);
            let mut got = Vec::new();
            for step in 0..200 {
                written += random(4) * u64::from(step < 150);
                let own = is_behind.then(|| read(seen, 5, written));
                let page = match own {
                    Some(page) => {
                        is_behind = page.as_ref().is_some_and(|page| page.events.len() == 5);
                        page
                    }
                    None => {
                        let page = read(shared, 1 + random(6), written);
                        shared += page.as_ref().map_or(0, |page| page.events.len() as u64);
                        // One of three never comes, but the last ones do.
                        page.filter(|_| step >= 150 || random(3) > 0)
                    }
                };
                let Some(page) = page else { continue };
                if !page.is_good_for(place(seen)) {
                    is_behind = true;
                    continue;
                }
                let mut rest = Rest::new(Arc::new(page), place(seen));
                while let Some(entry) = rest.next() {
                    got.push(entry.event.position());
                }
                seen = got.last().map_or(seen, |last| {
                    (begin..=written).find(|number| place(*number) == *last).unwrap()
                });
            }
            // What was lost last is found with the next page, and one more event brings one.
            if let Some(page) = read(seen, u64::MAX - seen, written) {
                let mut rest = Rest::new(Arc::new(page), place(seen));
                while let Some(entry) = rest.next() {
                    got.push(entry.event.position());
                }
            }
            assert_eq!(got, (begin + 1..=written).map(place).collect::<Vec<_>>());
        }
    }
}
