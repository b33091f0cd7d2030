//! Calls that pages of other sites make, which a browser lets through, are refused here, before it is
//! asked who is calling.
//!
//! | file | what is in it |
//! |---|---|
//! | `rule` | which names this server has, and which pages may call |
//!
//! A page may send what a form can send without asking: so every change has to say that it is JSON,
//! which a form cannot, even where there is nothing to say. For everything else a browser asks first
//! (`OPTIONS`), and no permission (`Access-Control-…`) is ever given.

mod rule;

use axum::extract::Request;
use axum::http::{HeaderMap, Method, header};

pub(crate) use self::rule::{Call, Hosts, Refusal, is_name};
use crate::access::Need;
use crate::code::Code;
use crate::problem::Problem;

/// Refuses a call that is not for this server, or that a page of another site makes. `need` is what
/// it takes to make it.
pub(crate) fn check(hosts: &Hosts, request: &Request, need: Option<&Need>) -> Result<(), Problem> {
    let (method, headers) = (request.method(), request.headers());
    let reads = [Method::GET, Method::HEAD].contains(method);
    let call = Call {
        authority: request.uri().authority().map(|authority| authority.as_str()),
        host: only(headers, &header::HOST),
        origin: only(headers, &header::ORIGIN),
        fetch_site: only(headers, &FETCH_SITE),
        is_open_read: need.is_none() && reads,
    };
    hosts.judge(&call).map_err(refused)?;
    let changes = !reads && ![Method::OPTIONS, Method::TRACE].contains(method);
    if changes && !is_json(headers) {
        let detail = "a call that changes something has to have Content-Type: application/json, \
                      even if its body is empty";
        return Err(Problem::new(Code::UnsupportedMediaType, detail));
    }
    Ok(())
}

static FETCH_SITE: header::HeaderName = header::HeaderName::from_static("sec-fetch-site");

/// A header's text; nothing good if it is there twice, or is none.
fn only<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    Some(if values.next().is_some() { "" } else { first.to_str().unwrap_or_default() })
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = only(headers, &header::CONTENT_TYPE).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

fn refused(refusal: Refusal<'_>) -> Problem {
    match refusal {
        Refusal::Host(host) => {
            let host: String = host.chars().take(SHOWN).collect();
            let detail = format!(
                "the call names the server {host:?}, which is not among its names: add that name, without a \
                 port, to server.hosts"
            );
            Problem::new(Code::UnknownHost, detail)
        }
        Refusal::Origin(origin) => {
            let origin: String = origin.chars().take(SHOWN).collect();
            let detail =
                format!("a page of {origin:?} makes the call, which is not in server.hosts");
            Problem::new(Code::ForeignOrigin, detail)
        }
        Refusal::Site(site) => {
            let detail = format!("a page of another site makes the call (Sec-Fetch-Site: {site})");
            Problem::new(Code::ForeignOrigin, detail)
        }
    }
}

/// Of what a caller says, no more is repeated.
const SHOWN: usize = 100;
