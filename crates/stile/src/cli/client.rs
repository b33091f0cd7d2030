//! Calls to a running server, for the commands that talk to one.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Certificate, ClientBuilder, Identity, Method, RequestBuilder, Response, Url};
use serde_json::Value;
use stile_domain::{Secret, Token};
use zeroize::Zeroizing;

use super::Failure;

pub(super) const DEFAULT_URL: &str = "http://127.0.0.1:7420";
/// Estimating and accepting take far less; a server that takes longer is in trouble.
const PATIENCE: Duration = Duration::from_secs(60);
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// Where the server is, and how its answers are shown.
#[derive(Debug, Clone, Args)]
pub(super) struct ServerArgs {
    /// The server; without it $STILE_URL, else http://127.0.0.1:7420.
    #[arg(long, value_name = "URL", value_parser = server_url)]
    url: Option<Url>,
    /// An API key; without it $STILE_API_KEY, which others on this machine cannot read off the
    /// list of processes.
    #[arg(long, value_name = "KEY", value_parser = take)]
    api_key: Option<Secret>,
    /// Whom to trust beside the authorities that this machine trusts: certificates as PEM; without it
    /// $STILE_CA.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// A certificate and its private key as PEM, for servers that ask for one; without it
    /// $STILE_IDENTITY.
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// Print the server's JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// Takes what was given as a key as it is, because a refusal by the parser of the command line would
/// repeat it.
pub(super) fn take(text: &str) -> Result<Secret, Infallible> {
    Ok(Secret::new(text))
}

fn server_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    if matches!(url.scheme(), "http" | "https") && url.has_host() {
        Ok(url)
    } else {
        Err("must be http://HOST:PORT or https://HOST:PORT".to_owned())
    }
}

impl ServerArgs {
    /// Whether somebody said where the server is.
    pub(super) fn is_named(&self) -> bool {
        self.url.is_some()
    }

    pub(super) fn client(&self, environment: &HashMap<String, String>) -> Result<Client, Failure> {
        let given = environment.get("STILE_URL").filter(|text| !text.is_empty());
        let url = match (&self.url, given) {
            (Some(url), _) => url.clone(),
            (None, Some(text)) => server_url(text).map_err(|e| format!("STILE_URL: {e}"))?,
            (None, None) => server_url(DEFAULT_URL)?,
        };
        let file = |given: &Option<PathBuf>, name: &'static str, option: &'static str| match given {
            Some(path) => Some((option, path.clone())),
            None => {
                let text = environment.get(name).filter(|text| !text.is_empty());
                text.map(|text| (name, PathBuf::from(text)))
            }
        };
        let trust = Trust {
            ca: file(&self.ca, "STILE_CA", "--ca"),
            identity: file(&self.identity, "STILE_IDENTITY", "--identity"),
        };
        let given = environment.get("STILE_API_KEY").filter(|text| !text.is_empty());
        let (name, text) = match (&self.api_key, given) {
            (Some(text), _) => ("--api-key", text.reveal()),
            (None, Some(text)) => ("STILE_API_KEY", text.as_str()),
            (None, None) => return Client::new(url, None, &trust),
        };
        let token: Token = text.parse().map_err(|error| format!("{name} {error}"))?;
        Client::new(url, Some(&token), &trust)
    }
}

/// A server that did not do what was asked.
#[derive(Debug)]
pub(super) enum CallError {
    /// Nobody answered.
    Unreachable { url: String, why: String },
    /// Somebody listened, but the answer did not come through.
    Lost { url: String, why: String },
    /// It said no, and why.
    Problem { status: u16, body: Value },
    /// Something answered that is not Stile.
    Foreign { url: String, status: u16 },
}

impl CallError {
    /// Whether the same call may well work in a moment.
    pub(super) fn passes(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Lost { .. } => true,
            Self::Problem { status, .. } | Self::Foreign { status, .. } => {
                *status >= 500 || *status == 429
            }
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { url, why } if why.contains("certificate") => write!(
                f,
                "{url} is not who it should be: {why}\n\
                 hint: if its certificate is from an authority of your own, name that with --ca or STILE_CA; else check \
                 the name in --url or STILE_URL"
            ),
            Self::Unreachable { url, why } => write!(
                f,
                "no server answers at {url}: {why}\n\
                 hint: start one with `stile dev` or `stile serve`, or say where it is with --url or STILE_URL"
            ),
            Self::Lost { url, why } if url.starts_with("http:") && why.contains("HTTP version") => {
                write!(
                    f,
                    "{url} does not speak plain HTTP: {why}\nhint: try https:// in --url or STILE_URL"
                )
            }
            Self::Lost { url, why } => write!(
                f,
                "{url} did not answer in full: {why}\n\
                 hint: what was asked may have been done; look before you ask again"
            ),
            Self::Problem { status, body } => {
                let part = |name: &str| body[name].as_str().unwrap_or_default();
                write!(f, "{} ({})\n{}", part("title"), part("code"), part("detail"))?;
                if let Some(data) = body["data"].as_str() {
                    write!(f, "\ndata: {data}")?;
                }
                if let Some(seconds) = body["retryAfter"].as_u64() {
                    write!(f, "\ntry again in {seconds} s")?;
                }
                let hint = match status {
                    401 => {
                        "give a key of this server with STILE_API_KEY or --api-key; whoever runs the server \
                         makes one beside it with `stile key create --config FILE`"
                    }
                    403 => {
                        "use another key; what a key may do never changes. Whoever runs the server makes one \
                         beside it with `stile key create --config FILE`"
                    }
                    _ => part("hint"),
                };
                write!(f, "\nhint: {hint}")
            }
            Self::Foreign { url, status } => write!(
                f,
                "{url} answered {status}, but not as Stile does\nhint: check --url or STILE_URL"
            ),
        }
    }
}

impl std::error::Error for CallError {}

/// The files of TLS, each with what named it.
struct Trust {
    ca: Option<(&'static str, PathBuf)>,
    identity: Option<(&'static str, PathBuf)>,
}

impl Trust {
    fn apply(&self, mut http: ClientBuilder) -> Result<ClientBuilder, Failure> {
        let read = |name: &str, path: &Path| {
            let bad = |why: String| format!("{name} {}: {why}", path.display());
            std::fs::read(path).map_err(|error| bad(format!("cannot be read: {error}")))
        };
        if let Some((name, path)) = &self.ca {
            let found = Certificate::from_pem_bundle(&read(name, path)?).unwrap_or_default();
            if found.is_empty() {
                return Err(format!("{name} {}: has no certificate as PEM", path.display()).into());
            }
            http = http.tls_certs_merge(found);
        }
        if let Some((name, path)) = &self.identity {
            let pem = Zeroizing::new(read(name, path)?);
            let identity = Identity::from_pem(&pem).map_err(|_| {
                format!("{name} {}: has no certificate and private key as PEM", path.display())
            })?;
            http = http.identity(identity);
        }
        Ok(http)
    }
}

/// Calls one server.
#[derive(Debug, Clone)]
pub(super) struct Client {
    http: reqwest::Client,
    url: Secret,
    /// The URL without whatever user and password are in it.
    shown: String,
}

impl Client {
    fn new(url: Url, token: Option<&Token>, trust: &Trust) -> Result<Self, Failure> {
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            let mut value = HeaderValue::try_from(format!("Bearer {}", token.reveal()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let http = reqwest::Client::builder().connect_timeout(CONNECT_PATIENCE);
        let mut http = trust.apply(http.default_headers(headers))?;
        if is_this_machine(&url) {
            // A proxy would look for the server on its own machine.
            http = http.no_proxy();
        }
        let plain = |url: &Url| url.as_str().trim_end_matches('/').to_owned();
        let mut shown = url.clone();
        // Neither fails for a URL that has a host.
        let _ = (shown.set_username(""), shown.set_password(None));
        Ok(Self { http: http.build()?, url: plain(&url).into(), shown: plain(&shown) })
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url.reveal()))
    }

    pub(super) async fn get(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<Value, CallError> {
        let path = with_query(path, query);
        self.call(self.request(Method::GET, &path).timeout(PATIENCE)).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value, CallError> {
        self.call(self.request(Method::POST, path).timeout(PATIENCE).json(body)).await
    }

    /// For a call whose success has nothing to say.
    pub(super) async fn delete(&self, path: &str) -> Result<(), CallError> {
        let request = self.request(Method::DELETE, path).timeout(PATIENCE);
        self.send(request.header(CONTENT_TYPE, "application/json")).await.map(drop)
    }

    /// Where the server is, as it may be shown.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// An answer that goes on until somebody ends it.
    pub(super) async fn open(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<Response, CallError> {
        let path = with_query(path, query);
        self.send(self.request(Method::GET, &path)).await
    }

    async fn call(&self, request: RequestBuilder) -> Result<Value, CallError> {
        let response = self.send(request).await?;
        let status = response.status().as_u16();
        let text = response.text().await.map_err(|error| self.lost(&error))?;
        let foreign = |_| CallError::Foreign { url: self.shown.clone(), status };
        serde_json::from_str(&text).map_err(foreign)
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, CallError> {
        let response = request.send().await.map_err(|error| {
            if error.is_connect() {
                CallError::Unreachable { url: self.shown.clone(), why: innermost(&error) }
            } else {
                self.lost(&error)
            }
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let text = response.text().await.map_err(|error| self.lost(&error))?;
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        let status = status.as_u16();
        if body["code"].is_string() {
            Err(CallError::Problem { status, body })
        } else {
            Err(CallError::Foreign { url: self.shown.clone(), status })
        }
    }

    fn lost(&self, error: &reqwest::Error) -> CallError {
        CallError::Lost { url: self.shown.clone(), why: innermost(error) }
    }
}

fn is_this_machine(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn with_query(path: &str, query: &[(&str, String)]) -> String {
    let mut text = path.to_owned();
    for (place, (name, value)) in query.iter().enumerate() {
        text.push(if place == 0 { '?' } else { '&' });
        text.push_str(&format!("{name}={}", encoded(value)));
    }
    text
}

/// A value as it stands in a path or a query.
pub(super) fn encoded(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let bytes = value.bytes();
    bytes
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// The cause that says most: the last of the chain.
fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_encoded() {
        assert_eq!(with_query("/a", &[]), "/a");
        let query = [("requestId", "a b&c=1".to_owned()), ("n", "5".to_owned())];
        assert_eq!(with_query("/a", &query), "/a?requestId=a%20b%26c%3D1&n=5");
    }

    #[test]
    fn only_http_is_called() {
        for text in ["http://127.0.0.1:7420", "https://stile.example/base/"] {
            assert!(server_url(text).is_ok(), "{text}");
        }
        for text in ["127.0.0.1:7420", "ftp://host", "", "http://"] {
            assert!(server_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn this_machine_needs_no_proxy() {
        for (text, expected) in [
            ("http://127.0.0.1:7420", true),
            ("http://[::1]:7420", true),
            ("http://localhost", true),
            ("http://10.0.0.5:7420", false),
        ] {
            assert_eq!(is_this_machine(&server_url(text).unwrap()), expected, "{text}");
        }
    }
}
