//! The layer in front of all calls: who is asking, and may they?

use std::net::IpAddr;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Components, OpenApi, RefOr};

use crate::access::{needed, peer};
use crate::app::Shared;
use crate::browsers;
use crate::code::Code;
use crate::guard::Refused;
use crate::measure::WrongKey;
use crate::peers::{Came, Hop, unknown_neighbour};
use crate::problem::{self, Problem};
use crate::rates::{Budget, Payer, Rates};

/// The name of the security scheme in the OpenAPI document.
const SCHEME: &str = "bearer";

/// Lets a request through, with who is asking, or answers 401 or 403. What pages of other sites ask
/// for is refused before, and what is asked too often after.
pub(crate) async fn check(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let path = route.map_or_else(|| request.uri().path(), MatchedPath::as_str);
    let need = needed(request.method(), path);
    if let Err(problem) = browsers::check(&app.hosts, &request, need.as_ref()) {
        return problem.into_response();
    }
    let from = peer(request.extensions());
    let Some(need) = need else {
        let budget = app.rates.take_open(from);
        return match budget.and_then(Budget::refusal) {
            Some(refusal) => refusal,
            None => told(next.run(request).await, budget),
        };
    };
    let known = route.is_some();
    let now = app.node.router().time();
    let (came, mut request) = match app.forwarder.door().check(request, now).await {
        Ok(checked) => checked,
        Err(problem) => return problem.into_response(),
    };
    // What a node passes on is its caller's, whose key it names; a key that is sent along is not
    // looked at. If it is not good here, that is not that node's doing: it has not heard of it yet.
    let admitted = match &came {
        Came::ByNode(behalf) => app.guard.admit_behalf(behalf).await.ok_or_else(|| {
            let detail = "the key that this call is made with is not good at this node";
            Problem::new(Code::CallersKey, detail)
        }),
        Came::Directly | Came::ByNeighbour => {
            let admitted = app.guard.admit(request.headers(), || app.rates.may_look(from)).await;
            admitted.map_err(|refused| refuse(&app.rates, refused, from))
        }
    };
    let access = match admitted {
        Ok(access) => access,
        Err(problem) => return problem.into_response(),
    };
    if matches!(came, Came::ByNeighbour) && !app.guard.is_open() {
        return unknown_neighbour().into_response();
    }
    let directly = matches!(came, Came::Directly);
    // What another node passes on was let in there, from wherever it came. To whoever has a key that is
    // not for where they are it looks like none.
    if directly && !access.is_from(from) {
        return refuse(&app.rates, Refused::Wrong, from).into_response();
    }
    // What a node passes on was counted there. Whoever only says that it does is not believed.
    let payer = match came {
        Came::ByNode(_) => Payer::paid(),
        Came::Directly | Came::ByNeighbour => Payer::new(&access, from),
    };
    let budget = app.rates.take(payer);
    if let Some(refusal) = budget.and_then(Budget::refusal) {
        return refusal;
    }
    access.note_use();
    request.extensions_mut().insert(Hop(!directly));
    // Where there is nothing, any key is told so.
    if known && let Err(problem) = access.check(need) {
        return problem.into_response();
    }
    // Whoever should log headers further in does not log keys.
    if let Some(value) = request.headers_mut().get_mut(header::AUTHORIZATION) {
        value.set_sensitive(true);
    }
    request.extensions_mut().insert(access);
    request.extensions_mut().insert(payer);
    told(next.run(request).await, budget)
}

/// An answer that tells the caller what is left of the budget, or of what it came to on the way.
fn told(mut response: Response, budget: Option<Budget>) -> Response {
    if let Some(budget) = response.extensions().get().copied().or(budget) {
        budget.write(response.headers_mut());
    }
    response
}

/// Counts somebody who is not let in, and says so.
fn refuse(rates: &Rates, refused: Refused, from: Option<IpAddr>) -> Problem {
    let (what, problem) = match refused {
        Refused::Missing => (WrongKey::Missing, None),
        Refused::Wrong => (WrongKey::Wrong, None),
        Refused::NotLookedFor(problem) => (WrongKey::TooMany, Some(problem)),
    };
    rates.refused(what, from);
    problem.unwrap_or_else(|| {
        let detail = "this server asks for an API key, and none that is good was given";
        Problem::new(Code::Unauthorized, detail)
    })
}

/// Says in the document what each call needs.
pub(crate) fn document(document: &mut OpenApi) {
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(
        "An API key, as `stile key create` or POST /api/v1/keys gave it out. The operation that a \
         call needs is given as its role. A server that has no keys yet asks for none, and only \
         its own machine can reach it.",
    ));
    let components = document.components.get_or_insert_with(Components::new);
    components.add_security_scheme(SCHEME, SecurityScheme::Http(scheme.build()));
    for (path, item) in &mut document.paths.paths {
        let calls = [
            (Method::GET, &mut item.get),
            (Method::POST, &mut item.post),
            (Method::PUT, &mut item.put),
            (Method::DELETE, &mut item.delete),
            (Method::PATCH, &mut item.patch),
        ];
        for (method, call) in calls {
            let (Some(need), Some(call)) = (needed(&method, path), call) else { continue };
            let role = [need.operation.name()];
            call.security = Some(vec![SecurityRequirement::new(SCHEME, role)]);
            let answers = &mut call.responses.responses;
            for (status, text) in [
                ("401", "No good API key was given".to_owned()),
                ("403", format!("The key is not for the operation {}", need.operation)),
            ] {
                answers.insert(status.to_owned(), RefOr::T(problem::answer(text)));
            }
        }
    }
}
