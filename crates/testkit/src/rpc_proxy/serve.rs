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
use super::faults::{Lie, Reaction, Status};
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
    let reactions = shared.faults.reactions(&seen);
    for reaction in reactions.iter().flatten() {
        match reaction {
            Reaction::Silence => std::future::pending::<()>().await,
            Reaction::Status(status) => return status_of(*status, "this endpoint is like that"),
            Reaction::Error(..) | Reaction::Reword(..) => {}
        }
    }
    let methods: Vec<&str> = seen.iter().map(|seen| seen.method.as_str()).collect();
    shared.faults.wait_until_released(&methods).await;
    if let Some(delay) = shared.faults.delay(&methods) {
        tokio::time::sleep(delay).await;
    }
    if request.is_array()
        && let Some(failure) = shared.faults.too_long(calls.len())
    {
        let error = json!({ "code": failure.code, "message": failure.message });
        return Json(json!({ "jsonrpc": "2.0", "id": null, "error": error })).into_response();
    }
    if request.is_array()
        && let Some(batches) = shared.faults.batches()
    {
        return match ask(&shared, &calls).await {
            Ok(Value::Array(answers)) => {
                let status = StatusCode::from_u16(batches.status).expect("an HTTP status");
                (status, (batches.write)(answers)).into_response()
            }
            other => unreachable(&format!("{other:?}")),
        };
    }
    if let Some(Status { status, retry_after }) = shared.faults.status(&methods) {
        let status = StatusCode::from_u16(status).expect("an HTTP status");
        let when = retry_after.map(|when| [(header::RETRY_AFTER, when)]);
        return (status, when, "the proxy was told to fail").into_response();
    }
    let (mut failed, mut passed) = (Vec::new(), Vec::new());
    for ((call, seen), reaction) in calls.into_iter().zip(&seen).zip(&reactions) {
        let instead = match reaction {
            Some(Reaction::Error(code, message)) => {
                Some(("error", json!({ "code": code, "message": message })))
            }
            _ => shared.faults.instead(seen),
        };
        match instead {
            Some((kind, said)) => {
                failed.push(json!({ "jsonrpc": "2.0", "id": call["id"], kind: said }));
            }
            None => passed.push(call),
        }
    }
    if failed.is_empty() {
        let lies = shared.faults.lies(&methods);
        let rewords = reactions.iter().any(|one| matches!(one, Some(Reaction::Reword(..))));
        let as_it_came = lies.is_empty() && !rewords && !shared.faults.strips(&methods);
        let answer = match as_it_came {
            true => pass_on(&shared, body).await,
            false => lie(&shared, &request, &lies, &reactions).await,
        };
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
            Ok(Value::Array(mut answers)) => {
                for answer in &mut answers {
                    if let Some(call) = passed.iter().find(|call| call["id"] == answer["id"]) {
                        strip(&shared, call, answer);
                    }
                }
                failed.extend(answers);
            }
            other => return unreachable(&format!("{other:?}")),
        }
    }
    Json(failed).into_response()
}

fn status_of(status: u16, why: &'static str) -> Response {
    (StatusCode::from_u16(status).expect("an HTTP status"), why).into_response()
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

/// The target's answer, with results changed and fields taken out, and with errors in other words.
async fn lie(
    shared: &Shared,
    request: &Value,
    lies: &[Lie],
    reactions: &[Option<Reaction>],
) -> Response {
    let answer = async {
        let sent = shared.client.post(&shared.target).json(request).send();
        sent.await?.json::<Value>().await
    };
    let mut answer = match answer.await {
        Ok(answer) => answer,
        Err(error) => return unreachable(&error.to_string()),
    };
    let calls: Vec<&Value> =
        request.as_array().map_or_else(|| vec![request], |all| all.iter().collect());
    let answers = match &mut answer {
        Value::Array(answers) => answers.as_mut_slice(),
        one => std::slice::from_mut(one),
    };
    for answer in answers {
        let Some(place) = calls.iter().position(|call| call["id"] == answer["id"]) else {
            continue;
        };
        let call = calls[place];
        if let Some(Reaction::Reword(said, code, instead)) = &reactions[place]
            && answer["error"]["message"].as_str().is_some_and(|message| message.contains(said))
        {
            answer["error"] = json!({ "code": code, "message": instead });
        }
        let Some(result) = answer.get("result") else { continue };
        let of_method = lies.iter().filter(|lie| call["method"] == lie.method.as_str());
        let told = of_method.into_iter().find_map(|lie| (lie.answer)(&call["params"], result));
        if let Some(told) = told {
            answer["result"] = told;
        }
        strip(shared, call, answer);
    }
    Json(answer).into_response()
}

/// Takes out of the answer to a call what its method is told without.
fn strip(shared: &Shared, call: &Value, answer: &mut Value) {
    if let (Some(method), Some(result)) = (call["method"].as_str(), answer.get_mut("result")) {
        shared.faults.strip(method, result);
    }
}

const JSON: &str = "application/json";

async fn ask(shared: &Shared, calls: &[Value]) -> reqwest::Result<Value> {
    shared.client.post(&shared.target).json(calls).send().await?.json().await
}

fn unreachable(why: &str) -> Response {
    (StatusCode::BAD_GATEWAY, why.to_owned()).into_response()
}
