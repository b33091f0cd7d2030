//! Hides what is secret in a URL before it is shown.

const MASK: &str = "***";

/// Path segments of at least this many characters are taken for the access key of a chain provider.
const ACCESS_KEY_CHARACTERS: usize = 24;

/// Masks the password, query parameters that sound secret, and path segments that look like access
/// keys.
///
/// Where a URL can be read in two ways, more is masked rather than less. A text without `://` is
/// masked whole.
pub(super) fn mask(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return MASK.to_owned();
    };
    if scheme == "sqlite" {
        return url.to_owned();
    }
    // The last `@`, as a password may hold an unescaped one, or a `/` or `?` that would seem to end
    // the host.
    let (credentials, rest) = match rest.rsplit_once('@') {
        Some((credentials, rest)) => (mask_password(credentials), rest),
        None => (String::new(), rest),
    };
    let (place, query) = match rest.split_once('?') {
        Some((place, query)) => (place, mask_query(query)),
        None => (rest, String::new()),
    };
    let place = if scheme.starts_with("http") || scheme.starts_with("ws") {
        mask_path(place)
    } else {
        place.to_owned()
    };
    format!("{scheme}://{credentials}{place}{query}")
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
            Some((name, _)) if sounds_secret(name) => format!("{name}={MASK}"),
            _ => parameter.to_owned(),
        })
        .collect();
    format!("?{}", parameters.join("&"))
}

fn sounds_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["pass", "pwd", "token", "secret", "key", "auth"].iter().any(|word| name.contains(word))
}

fn mask_path(place: &str) -> String {
    let Some((host, path)) = place.split_once('/') else {
        return place.to_owned();
    };
    let segments: Vec<&str> = path
        .split('/')
        .map(|segment| if is_access_key(segment) { MASK } else { segment })
        .collect();
    format!("{host}/{}", segments.join("/"))
}

fn is_access_key(segment: &str) -> bool {
    segment.len() >= ACCESS_KEY_CHARACTERS
        && segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

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
            (
                "https://rpc.example/v3/0123456789abcdef0123456789abcdef",
                "https://rpc.example/v3/***",
            ),
            ("wss://rpc.example/ws?apikey=abc", "wss://rpc.example/ws?apikey=***"),
            ("hunter2", "***"),
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
            "https://rpc.example/v1/mainnet",
        ] {
            assert_eq!(mask(url), url);
        }
    }
}
