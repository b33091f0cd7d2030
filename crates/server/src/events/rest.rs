//! What a listener has still to take of a page.
//!
//! A listener that does not read holds the page, which it shares with the others, and a place in it.
//! What it is sent is made when it asks for it.

use std::sync::Arc;

use stile_store::StreamPosition;

use super::hub::{Entry, Page};

/// A page, and how far a listener has come in it.
#[derive(Debug)]
pub(super) struct Rest {
    page: Arc<Page>,
    next: usize,
    /// Where the listener was before.
    pub(super) begin: StreamPosition,
    /// Whether the listener was shown something of it.
    pub(super) shown: bool,
}

impl Rest {
    /// All that a listener that has read up to here has not had.
    pub(super) fn new(page: Arc<Page>, begin: StreamPosition) -> Self {
        Self { page, next: 0, begin, shown: false }
    }

    /// The next entry that it has not had.
    pub(super) fn next(&mut self) -> Option<&Entry> {
        let rest = self.page.events.get(self.next..)?;
        let skipped = rest.iter().position(|entry| entry.comes_after(self.begin))?;
        self.next += skipped + 1;
        self.page.events.get(self.next - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::hub::tests::event;
    use super::*;

    #[test]
    fn hole_45_a_listener_that_does_not_read_holds_no_texts() {
        let begin = event(1).position();
        let page = Arc::new(Page::new(begin, (2..500).map(event).collect()).unwrap());
        let mut stalled: Vec<Rest> =
            (0..1_000).map(|_| Rest::new(Arc::clone(&page), begin)).collect();
        for rest in &mut stalled {
            let entry = rest.next().unwrap();
            assert_eq!(entry.event.position(), event(2).position());
            entry.text(super::super::text).unwrap();
        }
        let made = page.events.iter().filter(|entry| entry.has_text()).count();
        assert_eq!(made, 1, "one text, for all who have asked for it");
    }

    #[test]
    fn each_entry_comes_once_and_then_none() {
        let page = Arc::new(Page::new(event(1).position(), (2..7).map(event).collect()).unwrap());
        let mut rest = Rest::new(page, event(4).position());
        assert_eq!(rest.next().unwrap().event.position(), event(5).position());
        assert_eq!(rest.next().unwrap().event.position(), event(6).position());
        assert!(rest.next().is_none() && rest.next().is_none());
    }
}
