//! Hides what is secret in a URL before it is shown.

const MASK: &str = "***";

/// Shows where a URL leads, and hides the rest.
///
/// Of an endpoint (`http`, `https`, `ws`, `wss`) only scheme, host and port are shown: user, path and
/// query carry access keys as they please. Of a store the password and all parameters but those that
/// are known to be harmless are hidden. Where a URL can be read in two ways, more is hidden rather than less. A text
/// without `://` is hidden whole.
pub(super) fn mask(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return MASK.to_owned();
    };
    match scheme {
        "sqlite" => url.to_owned(),
        "http" | "https" | "ws" | "wss" => format!("{scheme}://{}", mask_endpoint(rest)),
        _ => format!("{scheme}://{}", mask_store(rest)),
    }
}

/// `host:port`, with a mark for everything that stands before and behind it.
fn mask_endpoint(rest: &str) -> String {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, behind) = rest.split_at(end);
    let (user, host) = match authority.rsplit_once('@') {
        Some((_, host)) => (format!("{MASK}@"), host),
        // A password with a `/` in it that nobody escaped would be taken for the host.
        None if behind.contains('@') => return MASK.to_owned(),
        None => (String::new(), authority),
    };
    let behind = match behind {
        "" | "/" => behind.to_owned(),
        _ => format!("/{MASK}"),
    };
    format!("{user}{host}{behind}")
}

fn mask_store(rest: &str) -> String {
    // The last `@`, as a password may hold an unescaped one, or a `/` or `?` that would seem to end
    // the host.
    let (credentials, rest) = match rest.rsplit_once('@') {
        Some((credentials, rest)) => (mask_password(credentials), rest),
        None => (String::new(), rest),
    };
    match rest.split_once('?') {
        Some((place, query)) => format!("{credentials}{place}{}", mask_query(query)),
        None => format!("{credentials}{rest}"),
    }
}

fn mask_password(credentials: &str) -> String {
    match credentials.split_once(':') {
        Some((user, _)) => format!("{user}:{MASK}@"),
        None => format!("{credentials}@"),
    }
}

fn mask_query(query: &str) -> String {
    let parameters: Vec<String> = query
        .split('&')
        .map(|parameter| match parameter.split_once('=') {
            Some((name, _)) if HARMLESS.contains(&name) => parameter.to_owned(),
            Some((name, _)) => format!("{name}={MASK}"),
            None => MASK.to_owned(),
        })
        .collect();
    format!("?{}", parameters.join("&"))
}

/// Parameters of a connection that are no secrets, and that people look for.
const HARMLESS: [&str; 10] = [
    "application_name",
    "connect_timeout",
    "dbname",
    "host",
    "keepalives",
    "port",
    "protocol",
    "sslmode",
    "target_session_attrs",
    "user",
];

#[cfg(test)]
mod tests {
    use super::mask;

    #[test]
    fn hides_what_is_secret() {
        for (url, shown) in [
            ("postgres://user:hunter2@host:5432/db", "postgres://user:***@host:5432/db"),
            (
                "postgres://user:hun/ter@2@host/db?sslmode=require",
                "postgres://user:***@host/db?sslmode=require",
            ),
            (
                "postgres://host/db?user=a&password=hunter2",
                "postgres://host/db?user=a&password=***",
            ),
            ("redis://:hunter2@host", "redis://:***@host"),
            ("redis://:hunter2@a,redis://:hunter2@b", "redis://:***@b"),
            ("hunter2", "***"),
        ] {
            assert_eq!(mask(url), shown);
        }
    }

    /// However short and however named: what is behind a host may be an access key.
    #[test]
    fn hole_47_of_an_endpoint_only_scheme_host_and_port_are_shown() {
        for (url, shown) in [
            ("https://rpc.example/v3/0123456789abcdef0123456789abcdef", "https://rpc.example/***"),
            ("https://rpc.example:8545/abc", "https://rpc.example:8545/***"),
            ("https://rpc.example?abc", "https://rpc.example/***"),
            ("https://rpc.example#abc", "https://rpc.example/***"),
            ("wss://rpc.example/ws?apikey=abc", "wss://rpc.example/***"),
            ("https://user:hunter2@rpc.example/", "https://***@rpc.example/"),
            ("https://hunter2@rpc.example", "https://***@rpc.example"),
            ("https://user:hun@ter2@rpc.example/a", "https://***@rpc.example/***"),
            ("https://user:hun/ter2@rpc.example/a", "https://***"),
            ("http://[::1]:8545/abc", "http://[::1]:8545/***"),
        ] {
            assert_eq!(mask(url), shown);
        }
    }

    #[test]
    fn leaves_the_rest() {
        for url in [
            "sqlite:///home/a:b@c/stile.db",
            "postgres://user@host/db",
            "http://127.0.0.1:8545",
            "http://127.0.0.1:8545/",
        ] {
            assert_eq!(mask(url), url);
        }
    }
}
