//! The layer in front of all calls: who is asking, and may they?

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Components, OpenApi, RefOr};

use crate::access::needed;
use crate::app::Shared;
use crate::code::Code;
use crate::peers;
use crate::problem::{self, Problem};

/// The name of the security scheme in the OpenAPI document.
const SCHEME: &str = "bearer";

/// Lets a request through, with who is asking, or answers 401 or 403.
pub(crate) async fn check(State(app): State<Shared>, mut request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let path = route.map_or_else(|| request.uri().path(), MatchedPath::as_str);
    let Some(need) = needed(request.method(), path) else { return next.run(request).await };
    let known = route.is_some();
    let Some(access) = app.guard.admit(request.headers()).await else {
        let detail = "this server asks for an API key, and none that is good was given";
        return Problem::new(Code::Unauthorized, detail).into_response();
    };
    let hop = match peers::check(request.headers(), app.forwarder.secret(), app.guard.is_open()) {
        Ok(hop) => hop,
        Err(problem) => return problem.into_response(),
    };
    request.extensions_mut().insert(hop);
    // Where there is nothing, any key is told so.
    if known && let Err(problem) = access.check(need) {
        return problem.into_response();
    }
    // Whoever should log headers further in does not log keys.
    if let Some(value) = request.headers_mut().get_mut(header::AUTHORIZATION) {
        value.set_sensitive(true);
    }
    request.extensions_mut().insert(access);
    next.run(request).await
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
