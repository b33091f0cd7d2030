//! Which way a call may go from one node to another.

use std::net::IpAddr;

/// Whether nobody in between can read what goes to this URL: it goes by TLS, or does not leave the
/// machine.
pub fn is_private_way(url: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(url) else { return false };
    match url.scheme() {
        "https" => true,
        "http" => url.host_str().is_some_and(is_loopback),
        _ => false,
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_the_machine_goes_by_tls() {
        for (url, private) in [
            ("https://10.0.0.11:7420", true),
            ("https://stile-a.internal", true),
            ("http://127.0.0.1:7420", true),
            ("http://127.8.9.1:7420/stile", true),
            ("http://localhost:7420", true),
            ("http://LOCALHOST:7420", true),
            ("http://[::1]:7420", true),
            ("http://[::ffff:127.0.0.1]:7420", true),
            ("http://10.0.0.11:7420", false),
            ("http://stile-a:7420", false),
            ("http://localhost.evil.example:7420", false),
            ("http://127.0.0.1.evil.example", false),
            ("http://127.0.0.1@evil.example", false),
            ("http://[2001:db8::1]", false),
            ("ftp://127.0.0.1", false),
            ("127.0.0.1:7420", false),
            ("", false),
        ] {
            assert_eq!(is_private_way(url), private, "{url}");
        }
    }
}
