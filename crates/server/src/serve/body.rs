//! Bodies: those of calls have to come in time, and those of answers last as long as they are read.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Sleep;

use super::activity::Busy;

/// Why a body did not come.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// Its time was over.
    #[error("the body did not come in time")]
    TooSlow,
    /// The connection broke, or what came is no body.
    #[error(transparent)]
    Broken(#[from] hyper::Error),
}

/// The body of a call. Its time begins when it is first waited for, and covers all of it: whoever sends
/// a byte now and then gets no more.
#[derive(Debug)]
pub(super) struct InTime {
    body: Incoming,
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

impl InTime {
    pub(super) fn new(body: Incoming, limit: Duration) -> Self {
        Self { body, limit, timer: None }
    }
}

impl Body for InTime {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::from)));
        }
        let limit = self.limit;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(timer.as_mut().poll(cx));
        crate::measure::timed_out("body");
        Poll::Ready(Some(Err(BodyError::TooSlow)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// So much of an answer is handed over at once. What is handed over is out of sight: nobody knows
/// whether the other side has taken it until more is asked for.
const PIECE: usize = 16 * 1024;

/// The body of an answer, in pieces. Until it is over its connection has something to do.
#[derive(Debug)]
pub(super) struct Answer {
    body: axum::body::Body,
    /// What there is of it and was not handed over.
    rest: Bytes,
    busy: Busy,
}

impl Answer {
    pub(super) fn new(body: axum::body::Body, busy: Busy) -> Self {
        // Its head is. Whoever does not take that does not get to the body.
        busy.handed_over();
        Self { body, rest: Bytes::new(), busy }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.busy.asked();
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(last) => {
                        self.busy.handed_over();
                        return Poll::Ready(Some(Ok(last)));
                    }
                },
                end => return Poll::Ready(end),
            }
        }
        self.busy.handed_over();
        let length = self.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, body) = (self.rest.len() as u64, self.body.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(rest.saturating_add(body.lower()));
        if let Some(upper) = body.upper().and_then(|upper| upper.checked_add(rest)) {
            hint.set_upper(upper);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use futures::future::poll_fn;

    use super::super::activity::Activity;
    use super::super::doing::{Overdue, Patience};
    use super::*;
    use crate::serve::Limits;

    /// An answer is as it was, whatever it is made of; and until its last piece is asked for somebody is
    /// waited for.
    #[tokio::test]
    async fn hole_45_an_answer_is_handed_over_piece_by_piece() {
        let bytes: Bytes = (0..100_000_u32).map(|number| number as u8).collect();
        let limits = Limits { idle: Duration::ZERO, ..Limits::default() };
        let patience = Patience::new(&limits);
        let activity = Activity::new(true);
        let mut answer = Answer::new(bytes.clone().into(), activity.call());
        assert_eq!(activity.judge(&patience), Err(Overdue::Stuck), "its head is not taken");
        let mut got = Vec::new();
        while !answer.is_end_stream() {
            assert_eq!(answer.size_hint().exact(), Some((bytes.len() - got.len()) as u64));
            let frame = poll_fn(|cx| Pin::new(&mut answer).poll_frame(cx)).await;
            let piece = frame.unwrap().unwrap().into_data().unwrap();
            assert!(!piece.is_empty() && piece.len() <= PIECE);
            assert_eq!(activity.judge(&patience), Err(Overdue::Stuck), "more is not asked for");
            got.extend_from_slice(&piece);
        }
        assert!(got == bytes);
    }

    /// Whoever listens has taken all there is.
    #[tokio::test]
    async fn a_stream_that_waits_for_its_next_event_is_not_stuck() {
        let limits = Limits { idle: Duration::ZERO, ..Limits::default() };
        let activity = Activity::new(true);
        let events = futures::stream::pending::<Result<Bytes, std::io::Error>>();
        let body = axum::body::Body::from_stream(events);
        let mut answer = Answer::new(body, activity.call());
        let waits = poll_fn(|cx| Poll::Ready(Pin::new(&mut answer).poll_frame(cx).is_pending()));
        assert!(waits.await);
        assert!(activity.judge(&Patience::new(&limits)).is_ok());
    }
}
