//! HTTP.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt;
use serde::Serialize;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::dispatch::{answer, is_light};
use super::envelope::{Answer, Request};
use super::error::RpcError;
use crate::node::Node;

/// How large a request may be: a few thousand transactions in one batch.
const REQUEST_LIMIT_BYTES: usize = 64 << 20;

#[derive(Debug, Clone)]
struct Shared {
    node: Arc<Node>,
    end: CancellationToken,
}

/// Answers requests until told to end, and finishes those that have begun.
pub(crate) async fn serve(node: Arc<Node>, listener: TcpListener, end: CancellationToken) {
    let shared = Shared { node, end: end.clone() };
    let router = Router::new()
        .route("/", post(receive))
        .layer(DefaultBodyLimit::max(REQUEST_LIMIT_BYTES))
        .with_state(shared);
    // Answers are small, and whoever asks waits for them.
    let listener = listener.tap_io(|connection| {
        let _ = connection.set_nodelay(true);
    });
    let served = axum::serve(listener, router).with_graceful_shutdown(end.cancelled_owned());
    if let Err(error) = served.await {
        tracing::error!(%error, "the development chain no longer listens");
    }
}

async fn receive(State(shared): State<Shared>, body: Bytes) -> Response {
    match serde_json::from_slice(&body) {
        Err(error) => respond(&Answer::new(Value::Null, Err(RpcError::parse(error)))),
        Ok(Value::Array(requests)) => batch(&shared, requests).await,
        Ok(request) => match single(&shared, request).await {
            Some(answer) => respond(&answer),
            None => StatusCode::NO_CONTENT.into_response(),
        },
    }
}

async fn single(shared: &Shared, value: Value) -> Option<Answer> {
    let request = match Request::read(value) {
        Ok(request) => request,
        Err(answer) => return Some(*answer),
    };
    let wanted = request.id.is_some();
    let answer = if is_light(&shared.node, &request.method) {
        answer(&shared.node, request)
    } else {
        let node = Arc::clone(&shared.node);
        let id = request.id.clone().unwrap_or_default();
        let answered = tokio::task::spawn_blocking(move || answer(&node, request)).await;
        answered.unwrap_or_else(|error| Answer::new(id, Err(RpcError::internal(error))))
    };
    late(shared, answer.delay).await;
    wanted.then_some(answer)
}

async fn batch(shared: &Shared, values: Vec<Value>) -> Response {
    if values.is_empty() {
        let empty = RpcError::invalid_request("an empty batch");
        return respond(&Answer::new(Value::Null, Err(empty)));
    }
    let node = Arc::clone(&shared.node);
    let answered = tokio::task::spawn_blocking(move || {
        let answers = values.into_iter().map(|value| match Request::read(value) {
            Ok(request) => {
                let wanted = request.id.is_some();
                (wanted, answer(&node, request))
            }
            Err(answer) => (true, *answer),
        });
        answers.collect::<Vec<(bool, Answer)>>()
    });
    let answers = match answered.await {
        Ok(answers) => answers,
        Err(error) => return respond(&Answer::new(Value::Null, Err(RpcError::internal(error)))),
    };
    late(shared, answers.iter().map(|(_, answer)| answer.delay).max().unwrap_or_default()).await;
    let wanted = answers.into_iter().filter_map(|(wanted, answer)| wanted.then_some(answer));
    let wanted: Vec<Answer> = wanted.collect();
    if wanted.is_empty() { StatusCode::NO_CONTENT.into_response() } else { respond(&wanted) }
}

/// Waits, if the answer is to come late; not beyond the end of the chain.
async fn late(shared: &Shared, delay: Duration) {
    if !delay.is_zero() {
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = shared.end.cancelled() => {}
        }
    }
}

fn respond(answer: &impl Serialize) -> Response {
    match serde_json::to_vec(answer) {
        Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => {
            tracing::error!(%error, "an answer that cannot be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
