//! Bodies, path parts and queries, with errors that name the field.

use axum::body::Bytes;
use axum::extract::path::ErrorKind;
use axum::extract::rejection::{BytesRejection, FailedToBufferBody, PathRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::{HeaderMap, request};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use stile_domain::{Address, B256, MAX_NONCE, Nonce, parse_address};

use crate::code::Code;
use crate::problem::Problem;
use crate::serve::BodyError;

/// A JSON body. An empty body counts as `{}`, so that calls whose fields are all optional need
/// none.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let bytes = Bytes::from_request(request, state).await.map_err(unreadable)?;
        Self::read(&bytes)
    }
}

impl<T: DeserializeOwned> Body<T> {
    /// Reads a body. That it is JSON was said: `browsers` lets nothing else through.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Problem> {
        parse(if bytes.is_empty() { b"{}" } else { bytes }).map(Self)
    }
}

pub(crate) fn unreadable(rejection: BytesRejection) -> Problem {
    match rejection {
        BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)) => {
            Problem::new(Code::BodyTooLarge, "the body is larger than this call takes")
        }
        other if is_too_slow(&other) => {
            Problem::new(Code::BodyTooSlow, "the body did not come in time, and was not waited for")
        }
        other => Problem::new(Code::MalformedJson, other.body_text()),
    }
}

fn is_too_slow(rejection: &BytesRejection) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(rejection);
    while let Some(error) = cause {
        if matches!(error.downcast_ref(), Some(BodyError::TooSlow)) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Reads one JSON object, and nothing after it.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // A struct would also read from an array, field by field; callers shall name what they say.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return Err(Problem::field("body", "must be a JSON object"));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        if inner.is_data() {
            at_fault(&path, &inner.to_string())
        } else {
            Problem::new(Code::MalformedJson, inner.to_string())
        }
    })?;
    json.end().map_err(|e| Problem::new(Code::MalformedJson, e.to_string()))?;
    Ok(value)
}

/// Finds the field's name: the path, and for a field that is missing, unknown or there twice, the
/// name that serde quotes in it.
fn at_fault(path: &str, message: &str) -> Problem {
    // serde_json adds the place in the text, which is of no use to a program's author.
    let message = message.split(" at line ").next().unwrap_or(message);
    let quoted = message.split('`').nth(1);
    let names_it = ["missing field", "unknown field", "duplicate field"];
    let names_it = names_it.iter().any(|start| message.starts_with(start));
    match (path, quoted) {
        (path, Some(quoted)) if names_it => Problem::field(full_name(path, quoted), message),
        (".", _) => Problem::field("body", "must be a JSON object"),
        (path, _) => Problem::field(path, message),
    }
}

/// The name of a field with the path to it. For an unknown field the path has it already, for one
/// that is missing or there twice it ends before it.
fn full_name(path: &str, name: &str) -> String {
    let whole = path == name || path.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
    match path {
        "." => name.to_owned(),
        path if whole => path.to_owned(),
        path => format!("{path}.{name}"),
    }
}

/// The parts of a path, still as text.
pub(crate) struct Parts<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Parts<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut request::Parts, state: &S) -> Result<Self, Problem> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(parts)) => Ok(Self(parts)),
            Err(PathRejection::FailedToDeserializePathParams(error)) => Err(match error.kind() {
                ErrorKind::InvalidUtf8InPathParam { key } => Problem::field(key, "is not UTF-8"),
                kind => Problem::field("path", kind.to_string()),
            }),
            Err(other) => Err(Problem::field("path", other.body_text())),
        }
    }
}

/// The signer in a path.
pub(crate) fn signer(text: &str) -> Result<Address, Problem> {
    parse_address(text).map_err(|e| Problem::field("signer", e.to_string()))
}

/// The nonce in a path.
pub(crate) fn nonce(text: &str) -> Result<Nonce, Problem> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|nonce| digits && *nonce <= MAX_NONCE).ok_or_else(|| {
        Problem::field("nonce", format!("must be a whole number from 0 to {MAX_NONCE}"))
    })
}

/// A transaction's hash in a body. Left to itself the type would also take a hash without its
/// `0x`, or a list of bytes.
pub(crate) fn tx_hash<'de, D: Deserializer<'de>>(deserializer: D) -> Result<B256, D::Error> {
    let text = String::deserialize(deserializer)?;
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 64);
    let hash = digits.and_then(|digits| digits.parse().ok());
    hash.ok_or_else(|| D::Error::custom("must be 0x followed by 64 hexadecimal digits"))
}

/// A query string.
pub(crate) fn query<T: DeserializeOwned>(uri: &axum::http::Uri) -> Result<T, Problem> {
    let mut pairs = serde_json::Map::new();
    for (name, value) in form_pairs(uri.query().unwrap_or_default()) {
        if pairs.insert(name.clone(), value.into()).is_some() {
            return Err(Problem::field(name, "is given more than once"));
        }
    }
    let json = serde_json::Value::Object(pairs);
    serde_path_to_error::deserialize(json).map_err(|error| {
        let path = error.path().to_string();
        at_fault(&path, &error.into_inner().to_string())
    })
}

/// Query parameters as texts; what is a number is parsed by the field that wants one.
fn form_pairs(query: &str) -> Vec<(String, String)> {
    let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(
        &format!("/?{query}").parse().unwrap_or_default(),
    );
    pairs.map(|axum::extract::Query(pairs)| pairs).unwrap_or_default()
}

/// An optional `Idempotency-Key`.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    const NAME: &str = "Idempotency-Key";
    let Some(value) = headers.get(NAME) else { return Ok(None) };
    let text = value.to_str().ok().filter(|text| is_key(text));
    text.map(|text| Some(text.to_owned())).ok_or_else(|| Problem::field(NAME, KEY_RULE))
}

/// What [`is_key`] asks for.
pub(crate) const KEY_RULE: &str =
    "must be 1 to 255 visible ASCII characters, with no blank at either end";

/// Whether a text can be a caller's own name for a request.
pub(crate) fn is_key(text: &str) -> bool {
    // HTTP takes blanks off the ends of a header: with them it would be another name there.
    let is_trimmed = text.trim_matches(' ') == text;
    let visible = text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    visible && is_trimmed && (1..=255).contains(&text.len())
}

#[cfg(test)]
mod tests {
    use super::{full_name, is_key};

    #[test]
    fn hole_15_a_blank_at_an_end_makes_no_other_name() {
        for (text, is) in [
            ("dup", true),
            ("two words", true),
            ("dup ", false),
            (" dup", false),
            (" ", false),
            ("", false),
            ("é", false),
        ] {
            assert_eq!(is_key(text), is, "{text:?}");
        }
    }

    #[test]
    fn a_field_is_named_with_the_path_to_it() {
        assert_eq!(full_name(".", "payload"), "payload");
        assert_eq!(full_name("unknown", "unknown"), "unknown");
        assert_eq!(full_name("payload", "to"), "payload.to");
        assert_eq!(full_name("payload.unknown", "unknown"), "payload.unknown");
        assert_eq!(full_name("payload", "load"), "payload.load");
    }
}
