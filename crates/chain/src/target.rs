//! Where an endpoint is, and what of that may be shown.

use std::fmt;

use reqwest::Url;
use stile_domain::QuorumError;

/// An endpoint that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("endpoint {shown}: {why}")]
pub struct EndpointError {
    shown: String,
    why: &'static str,
}

impl EndpointError {
    /// The endpoints are fewer than have to agree.
    pub(crate) fn quorum(_: QuorumError) -> Self {
        let why = "the quorum must be from 1 to the number of endpoints";
        Self { shown: "list".to_owned(), why }
    }
}

/// How an endpoint is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Ws,
}

/// An endpoint's URL, of which only host and port are ever shown: user names, paths and queries
/// carry access keys.
pub(crate) struct Target {
    pub(crate) url: Url,
    pub(crate) scheme: Scheme,
    pub(crate) shown: String,
    /// Parts of the URL that an answer must not carry on, should the endpoint repeat them.
    secrets: Vec<String>,
}

/// Anything shorter is as likely to be a word of an error message as an access key.
const SHORTEST_SECRET: usize = 6;

impl Target {
    pub(crate) fn parse(url: &str) -> Result<Self, EndpointError> {
        let error = |shown: &str, why| EndpointError { shown: shown.to_owned(), why };
        let url: Url = url.trim().parse().map_err(|_| error("?", "is not a URL"))?;
        let shown = match (url.host_str(), url.port_or_known_default()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            _ => return Err(error("?", "has no host")),
        };
        let scheme = match url.scheme() {
            "http" | "https" => Scheme::Http,
            "ws" | "wss" => Scheme::Ws,
            _ => return Err(error(&shown, "must be http, https, ws or wss")),
        };
        let secrets = secrets_of(&url);
        Ok(Self { url, scheme, shown, secrets })
    }

    /// As [`Target::parse`], for whatever takes no WebSocket.
    pub(crate) fn parse_http(url: &str) -> Result<Self, EndpointError> {
        let target = Self::parse(url)?;
        if target.scheme == Scheme::Ws {
            return Err(EndpointError { shown: target.shown, why: "must be http or https" });
        }
        Ok(target)
    }

    /// The targets of a list, each under a name of its own: where several have host and port in common,
    /// and only differ in what is not shown, all but the first are numbered in their order.
    pub(crate) fn parse_all(urls: &[String]) -> Result<Vec<Self>, EndpointError> {
        let mut targets: Vec<Self> = Vec::with_capacity(urls.len());
        for url in urls {
            let mut target = Self::parse(url)?;
            let place = target.url.host_str().zip(target.url.port_or_known_default());
            let alike = |other: &&Self| {
                other.url.host_str().zip(other.url.port_or_known_default()) == place
            };
            let before = targets.iter().filter(alike).count();
            if before > 0 {
                target.shown = format!("{}#{}", target.shown, before + 1);
            }
            targets.push(target);
        }
        Ok(targets)
    }

    pub(crate) fn unusable(&self, why: &'static str) -> EndpointError {
        EndpointError { shown: self.shown.clone(), why }
    }

    /// A text of the endpoint's own, fit to be logged, stored and shown: without the URL's
    /// secrets, without control characters, and not longer than `limit` characters.
    pub(crate) fn clean(&self, text: &str, limit: usize) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            if text.contains(secret) {
                text = text.replace(secret, "…");
            }
        }
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        text.chars().map(plain).take(limit).collect()
    }
}

fn secrets_of(url: &Url) -> Vec<String> {
    let path = url.path_segments().into_iter().flatten().map(str::to_owned);
    let query = url.query_pairs().map(|(_, value)| value.into_owned());
    let user = [url.username().to_owned(), url.password().unwrap_or_default().to_owned()];
    let mut secrets: Vec<String> = path
        .chain(query)
        .chain(user)
        .chain(url.query().map(str::to_owned))
        // The path as a whole is one, however short its parts are.
        .chain([url.path().to_owned()])
        .filter(|part| part.len() >= SHORTEST_SECRET || (part.len() > 1 && part.starts_with('/')))
        .collect();
    // The longest first, so that no rest of a secret stays when one contains another.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_host_and_port_are_shown() {
        let target = Target::parse("https://canary1:canary2@node.example/v2/canary3?key=canary4");
        let target = target.unwrap();
        assert_eq!(format!("{target:?}"), "node.example:443");
        let text = target.clean("no such key: canary4,\ncanary3 or canary2", 300);
        assert!(!text.contains("canary"), "{text}");
        assert!(!text.contains('\n'), "{text}");
        assert_eq!(target.clean("abcdef", 3), "abc");
        let short = Target::parse("https://node.example/k1").unwrap();
        assert_eq!(short.clean("nothing at /k1", 300), "nothing at …");
    }

    /// Two keys of one provider must not look like one endpoint.
    #[test]
    fn hole_47_endpoints_that_look_alike_have_numbers() {
        let urls = [
            "https://node.example/v2/canary1",
            "https://other.example/canary2",
            "wss://node.example/v2/canary3",
            "https://node.example:8443/canary4",
            "https://node.example/v2/canary5",
        ];
        let targets = Target::parse_all(&urls.map(str::to_owned)).unwrap();
        let shown: Vec<_> = targets.iter().map(|target| target.shown.as_str()).collect();
        let expected = [
            "node.example:443",
            "other.example:443",
            "node.example:443#2",
            "node.example:8443",
            "node.example:443#3",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn what_is_no_endpoint_is_refused_without_repeating_it() {
        for url in ["canary", "ftp://node.example/canary", "unix:/canary", "http://", ""] {
            let error = Target::parse(url).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
        }
        assert!(Target::parse_http("ws://node.example/canary").is_err());
        assert!(Target::parse("wss://node.example").is_ok());
    }
}
