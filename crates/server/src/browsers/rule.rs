//! The rule: under which names this server is called, and by the pages of which sites.
//!
//! A browser lets every page of every site send calls to this machine, and to whatever else it can
//! reach. Two headers cannot be made up by a page, and they are what the rule is about:
//!
//! - `Host` is the name that the browser looked up. Whoever owns a name can have it point to
//!   127.0.0.1 a moment after the page was loaded (DNS rebinding). The browser then takes this server
//!   for the page's own, and shows the page all its answers. So a call has to name this server by a
//!   name that is known to be its own. Rebinding needs a name to bind: a server that listens on all
//!   addresses of a machine cannot know which they are, and takes any IP address as its own.
//! - `Origin` is the site of the page, and `Sec-Fetch-Site` how it relates to this server. A page of
//!   the same site is not one of this server: a *site* has all the ports of a machine, and all the
//!   names under a domain. So `same-site` is taken only with an `Origin` that is this server's.
//!
//! Ports of `Host` say nothing about whose a name is, and are not looked at. Ports of an `Origin` do:
//! another program on this machine is not this server.

use std::net::{IpAddr, SocketAddr};

/// The names of a server.
#[derive(Debug, Clone)]
pub(crate) struct Hosts {
    listen: SocketAddr,
    own: Vec<Own>,
}

/// One name, and the port that an origin of this name has; `None` for any.
#[derive(Debug, Clone)]
struct Own {
    host: String,
    /// The host, if it is one.
    address: Option<IpAddr>,
    port: Option<u16>,
}

impl Own {
    fn new(host: &str, port: Option<u16>) -> Self {
        Self { host: bare(host).to_owned(), address: address(host), port }
    }

    fn is(&self, host: &str, address: Option<IpAddr>) -> bool {
        match self.address {
            Some(own) => address == Some(own),
            None => self.host.eq_ignore_ascii_case(bare(host)),
        }
    }
}

/// What the rule looks at.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Call<'a> {
    /// `:authority` of HTTP/2, or the host in the request line.
    pub(crate) authority: Option<&'a str>,
    /// The header; `Some("")` for one that cannot be read or is there twice.
    pub(crate) host: Option<&'a str>,
    pub(crate) origin: Option<&'a str>,
    pub(crate) fetch_site: Option<&'a str>,
    /// Whether it only reads what everybody may read without a key.
    pub(crate) is_open_read: bool,
}

/// Why a call is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal<'a> {
    /// It is for somebody else, as far as is known here.
    Host(&'a str),
    /// A page of another site makes it.
    Origin(&'a str),
    /// A page makes it that says nothing but that it is another site's.
    Site(&'a str),
}

impl Hosts {
    /// The names of a server that listens here, is told to others by this URL, and has these further
    /// names.
    pub(crate) fn new(listen: SocketAddr, advertised: Option<&str>, names: &[String]) -> Self {
        let mut own: Vec<Own> = names.iter().map(|host| Own::new(host, None)).collect();
        if let Some((host, port)) = advertised.and_then(origin) {
            own.push(Own::new(host, Some(port)));
        }
        Self { listen, own }
    }

    /// Whether a call may go on.
    pub(crate) fn judge<'a>(&self, call: &Call<'a>) -> Result<(), Refusal<'a>> {
        let named = match (call.authority, call.host) {
            // A browser always names the server, so no page asks. Probes that speak HTTP/1.0 do not,
            // and what they read anybody may read.
            (None, None) if call.is_open_read => return Ok(()),
            (None, None) => return Err(Refusal::Host("")),
            (Some(authority), None) => authority,
            (None, Some(host)) => host,
            // Whoever is in between may have looked at either.
            (Some(authority), Some(host)) => {
                if !self.is_named(authority) {
                    return Err(Refusal::Host(authority));
                }
                host
            }
        };
        if !self.is_named(named) {
            return Err(Refusal::Host(named));
        }
        if call.is_open_read {
            return Ok(());
        }
        let is_own = call.origin.map(|origin| self.is_own(origin, named));
        match (call.fetch_site, is_own) {
            (Some(site @ "same-site"), None) => Err(Refusal::Site(site)),
            // What no browser says is not taken for what one would say.
            (Some(site), _) if !matches!(site, "same-origin" | "same-site" | "none") => {
                Err(Refusal::Site(site))
            }
            (_, Some(false)) => Err(Refusal::Origin(call.origin.unwrap_or_default())),
            _ => Ok(()),
        }
    }

    /// Whether `host`, or `host:port`, names this server.
    fn is_named(&self, authority: &str) -> bool {
        let Some((host, _)) = split(authority) else { return false };
        let found = address(host);
        if self.own.iter().any(|own| own.is(host, found)) {
            return true;
        }
        match found {
            Some(address) => {
                let listen = self.listen.ip().to_canonical();
                address.is_loopback() || listen.is_unspecified() || address == listen
            }
            None => is_localhost(host),
        }
    }

    /// Whether an origin is a page of this server, or of one of its names. `named` is what the call
    /// names the server by, which is known to be right.
    fn is_own(&self, text: &str, named: &str) -> bool {
        let Some((host, port)) = origin(text) else { return false };
        // The page was loaded under the very name that the call is made to.
        let default = if text.starts_with("https") { 443 } else { 80 };
        if let Some((name, at)) = split(named)
            && bare(name).eq_ignore_ascii_case(bare(host))
            && at.unwrap_or(default) == port
        {
            return true;
        }
        let is_here = match address(host) {
            Some(address) => address.is_loopback() || address == self.listen.ip().to_canonical(),
            None => is_localhost(host),
        };
        if is_here {
            return port == self.listen.port() || self.says(host, Some(port));
        }
        self.says(host, Some(port)) || self.says(host, None)
    }

    fn says(&self, host: &str, port: Option<u16>) -> bool {
        let found = address(host);
        self.own.iter().any(|own| own.port == port && own.is(host, found))
    }
}

/// Whether a text can be one of a server's further names: a host without scheme and port.
pub(crate) fn is_name(text: &str) -> bool {
    match address(text) {
        Some(_) => true,
        None => !text.contains(['[', ']', ':']) && split(text).is_some(),
    }
}

/// Host and port of `host`, `host:port`, `[address]:port`. `None` for everything that is not one.
fn split(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.rfind(']') {
        Some(end) => {
            let (host, rest) = authority.split_at(end + 1);
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
        }
        None => {
            authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port)))
        }
    };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
    let digits = |port: &str| port.parse().ok().filter(|_| !port.starts_with('+'));
    let port = match port {
        // An empty port is none.
        None | Some("") => None,
        Some(port) => Some(digits(port)?),
    };
    (!bare(host).is_empty() && host.bytes().all(fits)).then_some((host, port))
}

/// Host and port of `scheme://host:port`, with whatever may follow. `None` for other schemes, and for
/// `null`.
fn origin(text: &str) -> Option<(&str, u16)> {
    let (rest, default) = match text.split_once("://")? {
        ("http", rest) => (rest, 80),
        ("https", rest) => (rest, 443),
        _ => return None,
    };
    let (host, port) = split(rest.split('/').next()?)?;
    Some((host, port.unwrap_or(default)))
}

/// A name without the dot that may end it.
fn bare(host: &str) -> &str {
    host.strip_suffix('.').unwrap_or(host)
}

fn is_localhost(host: &str) -> bool {
    bare(host).eq_ignore_ascii_case("localhost")
}

fn address(host: &str) -> Option<IpAddr> {
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let address: IpAddr = match inner {
        Some(inner) => IpAddr::V6(inner.parse().ok()?),
        None => host.parse().ok()?,
    };
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(listen: &str, advertised: Option<&str>, names: &[&str]) -> Hosts {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Hosts::new(listen.parse().unwrap(), advertised, &names)
    }

    #[test]
    fn a_server_is_called_by_its_own_names() {
        let local = hosts("127.0.0.1:7420", None, &[]);
        let named = hosts("10.0.0.5:7420", Some("http://stile-a:7420/"), &["Stile.Example"]);
        let all = hosts("0.0.0.0:7420", None, &[]);
        let all_6 = hosts("[::]:7420", None, &[]);
        let six = hosts("127.0.0.1:7420", None, &["fd00::1"]);
        for (hosts, host, good) in [
            (&local, "localhost", true),
            (&local, "LocalHost.:8080", true),
            (&local, "127.0.0.1:7420", true),
            (&local, "127.9.9.9:1", true),
            (&local, "[::1]:7420", true),
            (&local, "[::ffff:127.0.0.1]", true),
            (&local, "127.0.0.1:", true),
            (&local, "evil.example", false),
            (&local, "127.0.0.1.evil.example:7420", false),
            (&local, "localhost.evil.example", false),
            (&local, "evil.localhost", false),
            (&local, "127.1", false),
            (&local, "10.0.0.5:7420", false),
            (&local, "0.0.0.0:7420", false),
            (&local, "user@localhost", false),
            (&local, "localhost:7420:1", false),
            (&local, "localhost:+1", false),
            (&local, "[::1", false),
            (&local, "", false),
            (&local, ".", false),
            (&named, "10.0.0.5:7420", true),
            (&named, "127.0.0.1:7420", true),
            (&named, "stile-a:7420", true),
            (&named, "stile-a", true),
            (&named, "stile.example.", true),
            (&named, "STILE.example:443", true),
            (&named, "a.stile.example", false),
            (&named, "10.0.0.6:7420", false),
            (&all, "10.0.0.6:7420", true),
            (&all, "[fd00::1]:7420", true),
            (&all, "stile-a:7420", false),
            (&all_6, "192.0.2.1", true),
            (&all_6, "evil.example", false),
            (&six, "[fd00:0::1]:7420", true),
            (&six, "[fd00::2]:7420", false),
        ] {
            let by_header = Call { host: Some(host), ..Call::default() };
            let by_authority = Call { authority: Some(host), ..Call::default() };
            let expected = if good { Ok(()) } else { Err(Refusal::Host(host)) };
            assert_eq!(hosts.judge(&by_header), expected, "{host}");
            assert_eq!(hosts.judge(&by_authority), expected, "{host}");
        }
        for (authority, host, wrong) in
            [("evil.example", "localhost", "evil.example"), ("localhost", "a.example", "a.example")]
        {
            let call = Call { authority: Some(authority), host: Some(host), ..Call::default() };
            assert_eq!(local.judge(&call), Err(Refusal::Host(wrong)));
        }
    }

    /// Health checks of load balancers speak HTTP/1.0 and name nobody.
    #[test]
    fn hole_43_whoever_names_no_server_reads_what_is_open_and_nothing_else() {
        let local = hosts("127.0.0.1:7420", None, &[]);
        let nameless = Call::default();
        assert_eq!(local.judge(&nameless), Err(Refusal::Host("")));
        let probe = Call { is_open_read: true, ..nameless };
        assert_eq!(local.judge(&probe), Ok(()));
        // To name another one, or none that can be read, is not to name none.
        for host in ["", "evil.example"] {
            let named = Call { host: Some(host), ..probe };
            assert_eq!(local.judge(&named), Err(Refusal::Host(host)));
        }
    }

    #[test]
    fn only_pages_of_this_server_make_calls() {
        let local = hosts("127.0.0.1:7420", Some("http://127.0.0.1:7420"), &[]);
        let named = hosts("0.0.0.0:7420", Some("https://stile-a:7420"), &["stile.example"]);
        let here = "127.0.0.1:7420";
        for (hosts, host, origin, good) in [
            (&local, here, "http://127.0.0.1:7420", true),
            (&local, here, "http://localhost:7420", true),
            (&local, here, "http://[::1]:7420", true),
            (&local, here, "http://127.0.0.1:7421", false),
            (&local, here, "http://localhost:3000", false),
            (&local, here, "http://localhost", false),
            (&local, here, "http://evil.example", false),
            (&local, here, "http://evil.example:7420", false),
            (&local, here, "http://127.0.0.1:7420.evil.example", false),
            (&local, here, "HTTPS://127.0.0.1:7420", false),
            (&local, here, "null", false),
            (&local, here, "", false),
            (&local, here, "file://", false),
            // Through a tunnel, or the published port of a container.
            (&local, "localhost:9000", "http://localhost:9000", true),
            (&local, "localhost:9000", "http://localhost:9001", false),
            (&local, "localhost", "http://localhost", true),
            (&local, "localhost", "https://localhost", true),
            // Behind a proxy that keeps the name to itself.
            (&named, here, "https://stile.example", true),
            (&named, here, "https://stile.example:8443", true),
            (&named, here, "https://stile-a:7420", true),
            (&named, here, "https://stile-a", false),
            (&named, here, "https://evil.example", false),
            (&named, "192.0.2.1:80", "http://192.0.2.1", true),
            (&named, "192.0.2.1:80", "http://192.0.2.2", false),
        ] {
            let call = Call { host: Some(host), origin: Some(origin), ..Call::default() };
            let expected = if good { Ok(()) } else { Err(Refusal::Origin(origin)) };
            assert_eq!(hosts.judge(&call), expected, "{host} {origin}");
            assert_eq!(hosts.judge(&Call { is_open_read: true, ..call }), Ok(()), "{origin}");
        }
    }

    #[test]
    fn browsers_say_whether_a_page_is_another_sites() {
        let local = hosts("127.0.0.1:7420", None, &[]);
        let (own, foreign) = (Some("http://127.0.0.1:7420"), Some("http://localhost:3000"));
        for (fetch_site, origin, refusal) in [
            (None, None, None),
            (Some("none"), None, None),
            (Some("same-origin"), None, None),
            (Some("same-origin"), own, None),
            // What no browser says, and two of them at once, which reads as nothing.
            (Some("Cross-Site"), own, Some(Refusal::Site("Cross-Site"))),
            (Some("garbage"), None, Some(Refusal::Site("garbage"))),
            (Some(""), own, Some(Refusal::Site(""))),
            (Some("same-site"), own, None),
            (Some("same-site"), None, Some(Refusal::Site("same-site"))),
            (Some("same-site"), foreign, Some(Refusal::Origin("http://localhost:3000"))),
            (Some("cross-site"), None, Some(Refusal::Site("cross-site"))),
            (Some("cross-site"), own, Some(Refusal::Site("cross-site"))),
            (Some("same-origin"), foreign, Some(Refusal::Origin("http://localhost:3000"))),
        ] {
            let call = Call { host: Some("localhost"), origin, fetch_site, ..Call::default() };
            assert_eq!(local.judge(&call).err(), refusal, "{call:?}");
            assert_eq!(local.judge(&Call { is_open_read: true, ..call }), Ok(()));
        }
    }

    #[test]
    fn further_names_are_hosts_without_scheme_and_port() {
        for good in ["stile.example", "stile-a", "10.0.0.5", "fd00::1", "[fd00::1]", "a_b.c"] {
            assert!(is_name(good), "{good}");
        }
        for bad in
            ["", ".", "http://a", "a:80", "a/b", "*.example", "a b", "a@b", "[a]", "ü.example"]
        {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
