//! For nodes that would rather hold a connection than make calls: the same over a WebSocket.
//!
//! One node speaks over one connection. When it breaks nothing is removed: the node lives on for
//! `registry.node_ttl`, and if it is back by then, under the same incarnation, nobody has noticed.

use std::ops::ControlFlow;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use stile_registry::{JobId, NodeId, RegistryError};
use tokio::time::Instant;

use super::message::{Answer, Said, What, name_in};
use super::{body, nodes};
use crate::access::Access;
use crate::app::Shared;
use crate::code::Code;
use crate::problem::{Problem, Problems};
use crate::rates::{Budget, Payer};
use crate::streams::Stream;

/// The longest message: as long as the body of a call.
const LONGEST_MESSAGE: usize = 64 * 1024;
/// How often a silent connection is asked whether it lives.
const PING_EVERY: Duration = Duration::from_secs(15);
/// How long nothing may be heard.
const SILENCE: Duration = Duration::from_secs(45);
/// How often it is looked whether the key is still good.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a node may take to read an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it may take to say that it has seen the end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Its place in the list of paths keeps a node from having this name.
const CONNECT: &str = "connect";

/// Hold a connection for a node (WebSocket).
///
/// Messages and answers are JSON texts with a `type`; see docs/registry.md. When the connection
/// breaks, the node is left to expire, so one that is back in time has missed nothing.
#[utoipa::path(
    get, path = "/api/v1/nodes/connect", tag = "registry", operation_id = "connect_node",
    responses(
        (status = 101, description = "From here on messages are exchanged"),
        Problems,
    )
)]
pub(crate) async fn connect(
    State(app): State<Shared>,
    access: Access,
    payer: Payer,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade,
        Err(why) => {
            let problem = Problem::new(Code::UpgradeRequired, why.body_text());
            // The status says that something else is to be spoken here, and these say what.
            let upgrade = [(header::UPGRADE, "websocket"), (header::CONNECTION, "upgrade")];
            return Ok((upgrade, problem).into_response());
        }
    };
    let upgrade = upgrade.max_message_size(LONGEST_MESSAGE).max_frame_size(LONGEST_MESSAGE);
    let stream = app.streams.open(&access)?;
    let connection = Connection { app, access, payer, node: None, _stream: stream };
    Ok(upgrade.on_upgrade(move |socket| connection.run(socket)))
}

/// A node's connection.
struct Connection {
    app: Shared,
    access: Access,
    /// Every message costs what a call does.
    payer: Payer,
    /// Who speaks, and which start of it, once it has said so.
    node: Option<(NodeId, u64)>,
    /// It counts while it lasts.
    _stream: Stream,
}

/// Why a connection is ended by this side.
type End = (u16, &'static str);

impl Connection {
    async fn run(mut self, mut socket: WebSocket) {
        let stopping = self.app.stopping.clone();
        let mut looks = tokio::time::interval(LOOK_EVERY);
        let (mut heard, mut pinged) = (Instant::now(), Instant::now());
        let (code, reason) = loop {
            let step = tokio::select! {
                () = stopping.cancelled() => ControlFlow::Break((close_code::AWAY, "this node is stopping")),
                _ = looks.tick() => self.look(&mut socket, heard, &mut pinged).await,
                message = socket.recv() => {
                    heard = Instant::now();
                    match message {
                        Some(Ok(message)) => self.hear(&mut socket, message).await,
                        // Whoever says too much at once, or what cannot be read, is not answered.
                        Some(Err(_)) => ControlFlow::Break((close_code::SIZE, "unreadable or too long")),
                        None => return,
                    }
                }
            };
            if let ControlFlow::Break(end) = step {
                break end;
            }
        };
        let end = Message::Close(Some(CloseFrame { code, reason: reason.into() }));
        if let Ok(Ok(())) = tokio::time::timeout(PATIENCE, socket.send(end)).await {
            // A connection that is dropped with something unread is reset, and the last word is lost.
            let unread = async { while let Some(Ok(_)) = socket.recv().await {} };
            let _ = tokio::time::timeout(LAST_WORDS, unread).await;
        }
    }

    async fn look(
        &self,
        socket: &mut WebSocket,
        heard: Instant,
        pinged: &mut Instant,
    ) -> ControlFlow<End> {
        if !self.app.guard.still_admits(&self.access) {
            return ControlFlow::Break((close_code::POLICY, "the API key is no longer good"));
        }
        if heard.elapsed() > SILENCE {
            return ControlFlow::Break((close_code::AWAY, "nothing was heard for too long"));
        }
        if pinged.elapsed() < PING_EVERY {
            return ControlFlow::Continue(());
        }
        *pinged = Instant::now();
        send(socket, Message::Ping(axum::body::Bytes::new())).await
    }

    async fn hear(&mut self, socket: &mut WebSocket, message: Message) -> ControlFlow<End> {
        let answer = match message {
            Message::Text(text) => self.answer(text.as_str()).await,
            Message::Binary(_) => {
                let json = || Problem::new(Code::MalformedJson, "messages are JSON texts");
                let problem = self.too_often().unwrap_or_else(json);
                Answer { r#ref: None, what: What::Problem { problem: problem.into_body() } }
            }
            // Pings are answered further down.
            Message::Ping(_) | Message::Pong(_) => return ControlFlow::Continue(()),
            Message::Close(_) => return ControlFlow::Break((close_code::NORMAL, "")),
        };
        match serde_json::to_string(&answer) {
            Ok(text) => send(socket, Message::Text(text.into())).await,
            Err(error) => {
                tracing::error!(%error, "an answer cannot be written as JSON");
                ControlFlow::Break((close_code::ERROR, "see the log"))
            }
        }
    }

    async fn answer(&mut self, text: &str) -> Answer {
        let what = match self.too_often().map_or_else(|| Said::read(text), Err) {
            Ok(said) => self.done(said).await,
            Err(problem) => Err(problem),
        };
        let problem = |problem: Problem| What::Problem { problem: problem.into_body() };
        Answer { r#ref: name_in(text), what: what.unwrap_or_else(problem) }
    }

    /// Takes a message from the rates of the key and the address. Why it is not done, if it is not.
    fn too_often(&self) -> Option<Problem> {
        self.app.rates.take(self.payer).and_then(Budget::problem)
    }

    async fn done(&mut self, said: Said) -> Result<What, Problem> {
        match said {
            Said::Register(node) => {
                let node = self.register(node).await.map_err(|problem| problem.within("node"))?;
                Ok(What::Registered { node })
            }
            Said::Heartbeat(heartbeat) => {
                let (id, incarnation) = self.speaker()?;
                let incarnation = heartbeat.incarnation.unwrap_or(incarnation);
                let node = nodes::heard(&self.app, &id, heartbeat, incarnation).await;
                let node = node.map_err(|problem| problem.within("heartbeat"))?;
                Ok(What::Heard { node })
            }
            Said::Complete(job_id) => {
                self.complete(&job_id).await?;
                Ok(What::Completed { job_id })
            }
        }
    }

    async fn register(
        &mut self,
        mut node: body::NodeBody,
    ) -> Result<std::sync::Arc<stile_registry::Node>, Problem> {
        let missing = || Problem::field("id", "missing field `id`");
        let id = node.id.take().ok_or_else(missing)?;
        let other = self.node.as_ref().is_some_and(|(speaker, _)| *speaker != id);
        if other || id.as_str() == CONNECT {
            let why = if other { "is not the node of this connection" } else { "is reserved" };
            return Err(Problem::field("id", why));
        }
        let node = nodes::registered(&self.app, node.registration(id)?).await?;
        self.node = Some((node.id.clone(), node.incarnation));
        Ok(node)
    }

    /// Frees a slot of the node that speaks, and of no other.
    async fn complete(&self, job: &JobId) -> Result<(), Problem> {
        let (id, _) = self.speaker()?;
        if *job.node() != id {
            return Err(RegistryError::JobOver { job: job.clone() }.into());
        }
        Ok(self.app.registry.complete(job).await?)
    }

    fn speaker(&self) -> Result<(NodeId, u64), Problem> {
        let nobody = || Problem::new(Code::NodeUnknown, "register over this connection first");
        self.node.clone().ok_or_else(nobody)
    }
}

async fn send(socket: &mut WebSocket, message: Message) -> ControlFlow<End> {
    match tokio::time::timeout(PATIENCE, socket.send(message)).await {
        Ok(Ok(())) => ControlFlow::Continue(()),
        _ => ControlFlow::Break((close_code::AWAY, "nobody reads")),
    }
}
