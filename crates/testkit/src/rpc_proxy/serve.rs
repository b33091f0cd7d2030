//! What happens to one request.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::Shared;
use super::log::Seen;

/// Serves until it is dropped.
pub(super) async fn run(listener: TcpListener, shared: Arc<Shared>) {
    let router = Router::new().fallback(answer).layer(DefaultBodyLimit::disable());
    let served = axum::serve(listener, router.with_state(shared)).await;
    served.expect("serve the RPC proxy");
}

async fn answer(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let Ok(request) = serde_json::from_slice::<Value>(&body) else {
        return (StatusCode::BAD_REQUEST, "not JSON").into_response();
    };
    let calls = match &request {
        Value::Array(calls) => calls.clone(),
        call => vec![call.clone()],
    };
    let seen = write_down(&shared, &calls);
    if let Some(hook) = shared.faults.hook() {
        for hash in seen.iter().filter_map(Seen::sent_hash) {
            hook(hash).await;
        }
    }
    let methods: Vec<&str> = seen.iter().map(|seen| seen.method.as_str()).collect();
    shared.faults.wait_until_released(&methods).await;
    if let Some(delay) = shared.faults.delay(&methods) {
        tokio::time::sleep(delay).await;
    }
    if let Some(status) = shared.faults.status() {
        let status = StatusCode::from_u16(status).expect("an HTTP status");
        return (status, "the proxy was told to fail").into_response();
    }
    let (mut failed, mut passed) = (Vec::new(), Vec::new());
    for (call, seen) in calls.into_iter().zip(&seen) {
        match shared.faults.failure(&seen.method) {
            Some(failure) => failed.push(json!({
                "jsonrpc": "2.0",
                "id": call["id"],
                "error": { "code": failure.code, "message": failure.message },
            })),
            None => passed.push(call),
        }
    }
    if failed.is_empty() {
        let answer = pass_on(&shared, body).await;
        if shared.faults.loses(&methods) {
            return (StatusCode::GATEWAY_TIMEOUT, "the proxy lost the answer").into_response();
        }
        return answer;
    }
    if !request.is_array() {
        return Json(failed.remove(0)).into_response();
    }
    if !passed.is_empty() {
        match ask(&shared, &passed).await {
            Ok(Value::Array(answers)) => failed.extend(answers),
            other => return unreachable(&format!("{other:?}")),
        }
    }
    Json(failed).into_response()
}

/// Puts the calls into the log, in one piece.
fn write_down(shared: &Shared, calls: &[Value]) -> Vec<Seen> {
    let at = Instant::now();
    let seen = calls.iter().map(|call| Seen {
        at,
        method: call["method"].as_str().unwrap_or_default().to_owned(),
        params: call["params"].clone(),
        batch: calls.len(),
    });
    let seen: Vec<Seen> = seen.collect();
    shared.log.add(&seen);
    seen
}

/// The target's answer to the request as it came.
async fn pass_on(shared: &Shared, body: Bytes) -> Response {
    let request = shared.client.post(&shared.target).header(header::CONTENT_TYPE, JSON).body(body);
    let answer = async {
        let response = request.send().await?;
        Ok::<_, reqwest::Error>((response.status().as_u16(), response.bytes().await?))
    };
    match answer.await {
        Ok((status, bytes)) => {
            let status = StatusCode::from_u16(status).expect("an HTTP status");
            (status, [(header::CONTENT_TYPE, JSON)], bytes).into_response()
        }
        Err(error) => unreachable(&error.to_string()),
    }
}

const JSON: &str = "application/json";

async fn ask(shared: &Shared, calls: &[Value]) -> reqwest::Result<Value> {
    shared.client.post(&shared.target).json(calls).send().await?.json().await
}

fn unreachable(why: &str) -> Response {
    (StatusCode::BAD_GATEWAY, why.to_owned()).into_response()
}
