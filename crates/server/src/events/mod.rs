//! Everything that happens to transactions and signers, as it happens (server-sent events).
//!
//! Every event has its place in the stream as its `id`; a client that comes back with the last one
//! it got (`Last-Event-ID`) has missed nothing, even if the database has another history by then: the
//! client is told so, and goes on where the two part. A client that reads slowly only holds up itself:
//! the next page is taken when it has taken the last one.
//!
//! | file | what is in it |
//! |---|---|
//! | `hub` | one reader for all who listen |
//! | `rest` | what a listener has still to take of a page |

mod hub;
mod rest;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::Stream;
use serde::{Deserialize, Serialize};
use stile_domain::{Address, ChainId, TxId};
use stile_store::{HistoryChange, StreamEvent, StreamHistory, StreamPosition, TxEvent};
use tokio::sync::broadcast;
use utoipa::{IntoParams, ToSchema, openapi};
use uuid::Uuid;

pub(crate) use self::hub::Hub;
use self::hub::{Entry, Page};
use self::rest::Rest;
use crate::access::Access;
use crate::app::Shared;
use crate::extract;
use crate::measure;
use crate::nonces::{self, ChainNumber, TENANT};
use crate::problem::{Problem, Problems};
use crate::schema;
use crate::signers::history::SignerEventView;
use crate::streams;
use crate::tx::read::tx_id;
use crate::tx::story::EventView;

/// Entries read at once.
const PAGE: u32 = 500;
/// How long other nodes' entries may go unseen.
const POLL: Duration = Duration::from_millis(500);
/// How long to leave a database alone that does not answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often a silent stream shows that it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Which events.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    /// Only what came after this `id`; the header `Last-Event-ID` wins. Without either the stream
    /// begins now.
    #[param(value_type = Option<schema::StreamPosition>)]
    after: Option<String>,
    /// Only this account's.
    #[param(value_type = Option<schema::Address>)]
    signer: Option<String>,
    /// Only this chain's.
    #[param(value_type = Option<schema::GivenChainId>)]
    chain_id: Option<ChainNumber>,
    /// Only this transaction's, and nothing of its signer's.
    #[param(value_type = Option<Uuid>)]
    tx_id: Option<String>,
}

/// What happened to which transaction.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StreamEvent)]
pub(crate) struct TxStreamEvent {
    /// Which transaction.
    tx_id: Uuid,
    /// Its chain.
    #[schema(value_type = schema::ChainId)]
    chain_id: u64,
    /// The same as a text.
    #[schema(value_type = schema::ChainIdText)]
    chain_id_text: String,
    /// Its account.
    #[schema(value_type = schema::Address)]
    signer: String,
    #[serde(flatten)]
    event: EventView,
}

impl From<TxEvent> for TxStreamEvent {
    fn from(event: TxEvent) -> Self {
        Self {
            tx_id: event.tx.0,
            chain_id: event.lane.chain.get(),
            chain_id_text: event.lane.chain.to_string(),
            signer: event.lane.signer.to_string(),
            event: event.into(),
        }
    }
}

/// The database has another history than the one that the client has read: a standby took over, or a
/// backup was restored.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = HistoryEvent)]
pub(crate) struct HistoryEventView {
    /// Always `HISTORY_CHANGED`.
    kind: &'static str,
    /// The history that the client comes from; `null` if its `id` does not say.
    from: Option<HistoryView>,
    /// The history that is being written.
    to: HistoryView,
    /// What that means, and what to do.
    words: &'static str,
}

/// One history of the database.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = History)]
pub(crate) struct HistoryView {
    /// Its name.
    history: String,
    /// The timeline of PostgreSQL; `null` where there is none, or where it is not known any more.
    timeline: Option<String>,
}

impl From<StreamHistory> for HistoryView {
    fn from(history: StreamHistory) -> Self {
        Self { history: history.id.to_string(), timeline: history.timeline }
    }
}

impl From<HistoryChange> for HistoryEventView {
    fn from(change: HistoryChange) -> Self {
        Self {
            kind: "HISTORY_CHANGED",
            from: change.from.map(HistoryView::from),
            to: change.to.into(),
            words: "the database has failed over or was restored: what came last before this may be gone from \
                    it, and what follows may have come before; read again what you keep of either",
        }
    }
}

/// Where a client was cut off.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "for the document alone")]
struct LastEventHeader {
    /// The id of the last event received.
    #[param(rename = "Last-Event-ID", value_type = schema::StreamPosition, required = false)]
    last: (),
}

/// An event as the stream frames it.
#[derive(ToSchema)]
#[expect(dead_code, reason = "for the document alone")]
struct StreamFrame {
    /// Its place in the stream.
    #[schema(value_type = schema::StreamPosition)]
    id: (),
    /// What it is about: a transaction (`tx`), a signer (`signer`), or the history of the database
    /// (`history`).
    #[schema(value_type = String, pattern = "^(tx|signer|history)$", example = "tx")]
    event: (),
    #[schema(schema_with = event_data)]
    data: (),
}

fn event_data() -> openapi::schema::Object {
    let either = openapi::schema::AnyOfBuilder::new()
        .item(openapi::Ref::from_schema_name("StreamEvent"))
        .item(openapi::Ref::from_schema_name("SignerEvent"))
        .item(openapi::Ref::from_schema_name("HistoryEvent"));
    openapi::ObjectBuilder::new()
        .schema_type(openapi::schema::Type::String)
        .content_media_type("application/json")
        .content_schema(Some(either))
        .description(Some("What happened, as JSON."))
        .build()
}

/// Which events a client wants.
struct Wanted {
    signer: Option<Address>,
    chain: Option<ChainId>,
    tx: Option<TxId>,
}

impl Wanted {
    fn includes(&self, event: &StreamEvent) -> bool {
        let (lane, tx) = match event {
            StreamEvent::Tx(event) => (event.lane, Some(event.tx)),
            StreamEvent::Lane(event) => (event.lane, None),
            // Whatever it reads, it has read it in another history.
            StreamEvent::HistoryChanged(_) => return true,
        };
        self.signer.is_none_or(|signer| lane.signer == signer)
            && self.chain.is_none_or(|chain| lane.chain == chain)
            && self.tx.is_none_or(|wanted| tx == Some(wanted))
    }
}

/// Follow everything that happens to transactions and signers.
///
/// Each event is named `tx` or `signer`; its `id` is its place in the stream. To go on after a
/// break, send the last `id` as the header `Last-Event-ID` (browsers do so by themselves) or as
/// `after`.
/// An event named `history` says that the database has failed over or was restored since: what came
/// last may be gone, and what follows may have come before. Nothing is left out.
/// An `id` that comes without data says how far the stream has been read; only keys for all signers
/// get it. A stream ends when its key is revoked or expires.
#[utoipa::path(
    get, path = "/api/v1/events", tag = "transactions", operation_id = "events",
    params(EventsQuery, LastEventHeader),
    responses(
        (status = 200, description = "The events, until either side ends it", body = StreamFrame, content_type = "text/event-stream"),
        Problems,
    )
)]
pub(crate) async fn events(
    State(app): State<Shared>,
    access: Access,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let query: EventsQuery = extract::query(&uri)?;
    let after = query.after.as_deref().map(|text| position("after", text)).transpose()?;
    let last = headers.get("last-event-id").map(|value| value.to_str().unwrap_or_default());
    let last = last.map(|text| position("Last-Event-ID", text)).transpose()?;
    let wanted = Wanted {
        signer: query.signer.as_deref().map(extract::signer).transpose()?,
        chain: nonces::chain(query.chain_id)?,
        tx: query.tx_id.as_deref().map(tx_id).transpose()?,
    };
    if let Some(signer) = wanted.signer
        && app.directory.matching(&access, wanted.chain, wanted.signer).next().is_none()
    {
        return Err(app.directory.unknown(wanted.chain, signer));
    }
    let stream = app.streams.open(&access)?;
    // Before anything is read, so that nothing falls in between.
    let pages = app.hub.listen(app.node.transactions()).await?;
    let position = match last.or(after) {
        Some(position) => position,
        None => app.node.transactions().stream_end().await?,
    };
    let begin =
        Event::default().id(position.to_string()).retry(PATIENCE).comment("the stream begins");
    let feed = Feed {
        view: View { app, access, wanted },
        stream,
        pages,
        is_behind: true,
        position,
        begin: Some(begin),
        rest: None,
    };
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    Ok(Sse::new(futures::stream::unfold(feed, Feed::next)).keep_alive(keep_alive))
}

fn position(field: &str, text: &str) -> Result<StreamPosition, Problem> {
    text.parse().map_err(|_| Problem::field(field, "is not the id of an event of this server"))
}

/// What one client gets to see.
struct View {
    app: Shared,
    access: Access,
    wanted: Wanted,
}

/// One client's way through the stream.
struct Feed {
    view: View,
    /// It counts while it lasts.
    stream: streams::Stream,
    /// What is read for all.
    pages: broadcast::Receiver<Arc<Page>>,
    /// Whether there may be entries that it did not get: it reads by itself.
    is_behind: bool,
    /// How far the stream has been read.
    position: StreamPosition,
    /// What comes first of all.
    begin: Option<Event>,
    /// What has been read and not been taken.
    rest: Option<Rest>,
}

impl Feed {
    /// The next event; `None` when the server stops, or the caller's key is no longer good.
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        let (stopping, over) = (self.view.app.stopping.clone(), self.stream.over.clone());
        loop {
            if stopping.is_cancelled() || over.is_cancelled() {
                return None;
            }
            if let Some(event) = self.begin.take().or_else(|| self.ready()) {
                return Some((Ok(event), self));
            }
            tokio::select! {
                () = stopping.cancelled() => return None,
                () = over.cancelled() => return None,
                () = self.read() => {}
            }
        }
    }

    /// Takes the next page, of all or of its own. Nothing is lost if this is dropped half-way.
    async fn read(&mut self) {
        if self.is_behind {
            return self.catch_up().await;
        }
        match self.pages.recv().await {
            Ok(page) if page.is_good_for(self.position) => self.take(page),
            // It was too slow, or comes from elsewhere.
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => self.is_behind = true,
            // The reader for all is part of the server, so the server has ended.
            Err(broadcast::error::RecvError::Closed) => self.view.app.stopping.cancelled().await,
        }
    }

    /// Reads a page by itself. One that is not full has brought it to the end.
    async fn catch_up(&mut self) {
        measure::stream_read("one");
        let transactions = self.view.app.node.transactions();
        let events = match transactions.events_after(self.position, PAGE).await {
            Ok(events) => events,
            Err(error) => {
                tracing::debug!(%error, "a stream of events waits for the database");
                return tokio::time::sleep(PATIENCE).await;
            }
        };
        let changed = matches!(events.first(), Some(StreamEvent::HistoryChanged(_)));
        self.is_behind = changed || events.len() >= PAGE as usize;
        if let Some(page) = Page::new(self.position, events) {
            self.take(Arc::new(page));
        }
    }

    /// A page of which it has not had everything.
    fn take(&mut self, page: Arc<Page>) {
        self.rest = Some(Rest::new(page, self.position));
    }

    /// The next event of what has been read.
    fn ready(&mut self) -> Option<Event> {
        let rest = self.rest.as_mut()?;
        while let Some(entry) = rest.next() {
            self.position = entry.event.position();
            if let Some(event) = self.view.event(entry) {
                rest.shown = true;
                return Some(event);
            }
        }
        let says_nothing = !rest.shown && self.position != rest.begin;
        self.rest = None;
        // How far the stream has been read tells how busy others are, so it is not for those who may
        // not see the others. They read a little more when they come back, and miss nothing.
        let tells = says_nothing && self.view.access.sees_all();
        tells.then(|| Event::default().id(self.position.to_string()))
    }
}

impl View {
    /// An entry as it is sent, if the client gets to see it.
    fn event(&self, entry: &Entry) -> Option<Event> {
        let event = &entry.event;
        let ours = !matches!(event, StreamEvent::Tx(event) if event.tenant != TENANT);
        let shows = |lane| self.app.directory.shows(&self.access, lane);
        let visible = ours && event.lane().is_none_or(shows);
        if !visible || !self.wanted.includes(event) {
            return None;
        }
        let name = match event {
            StreamEvent::Tx(_) => "tx",
            StreamEvent::Lane(_) => "signer",
            StreamEvent::HistoryChanged(change) => {
                tracing::info!(from = ?change.from, to = ?change.to, "a stream of events comes from another history of the database");
                "history"
            }
        };
        let id = event.position().to_string();
        Some(Event::default().id(id).event(name).data(entry.text(text)?))
    }
}

/// An event as JSON, the same for all who may see it.
fn text(event: &StreamEvent) -> Option<String> {
    let text = match event.clone() {
        StreamEvent::Tx(event) => serde_json::to_string(&TxStreamEvent::from(event)),
        StreamEvent::Lane(event) => serde_json::to_string(&SignerEventView::from(event)),
        StreamEvent::HistoryChanged(change) => {
            serde_json::to_string(&HistoryEventView::from(change))
        }
    };
    text.inspect_err(|error| tracing::error!(%error, "an event cannot be written as JSON")).ok()
}
