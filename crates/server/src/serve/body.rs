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

/// The body of an answer. Until it is over its connection has something to do.
#[derive(Debug)]
pub(super) struct Answer {
    body: axum::body::Body,
    _busy: Busy,
}

impl Answer {
    pub(super) fn new(body: axum::body::Body, busy: Busy) -> Self {
        Self { body, _busy: busy }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
