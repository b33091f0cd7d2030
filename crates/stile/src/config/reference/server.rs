//! The HTTP server.

use super::Preset::{Unset, Value};
use super::{HOUR_MS, Key, MINUTE_MS, Section, duration};
use crate::config::value::Kind;

pub(super) const SERVER: Section = Section {
    name: "server",
    is_list: false,
    text: "The HTTP server.",
    keys: &[
        Key::new(
            "listen",
            Kind::Listen,
            Value("127.0.0.1:7420"),
            "Where the server listens. Port 0 takes any free one.",
        ),
        Key::new(
            "hosts",
            Kind::HostList,
            Unset("none"),
            "Further names by which the server is called, such as `[\"stile.example\"]`. A call is \
             answered if its `Host` is `localhost`, a loopback address, the address listened on (any IP \
             address, if that is `0.0.0.0` or `[::]`), the host of `cluster.advertise_url`, or one of \
             these; and a call that a page makes, if the page's `Origin` is one of these or this server. \
             See [operations](operations.md#browsers).",
        ),
        Key::new(
            "require_key",
            Kind::Boolean,
            Value("false"),
            "Whether every call needs an API key from the first moment, before there is any. Without it a \
             server on a database that never had a key is open to its own machine; once a key has existed, \
             every call needs one in any case. `stile key create --config FILE` makes the first key.",
        ),
        Key::new(
            "shutdown_grace",
            duration(0, HOUR_MS),
            Value("20s"),
            "How long queued work may take to finish after the first signal to stop. A second \
             signal ends the process at once.",
        ),
    ],
};

pub(super) const TLS: Section = Section {
    name: "server.tls",
    is_list: false,
    text: "TLS in the process, with HTTP/2. The files are PEM; they are looked at every two seconds, and \
           new ones are used once they fit together. See [operations](operations.md#tls).",
    keys: &[
        Key::new(
            "cert",
            Kind::Path,
            Unset("none: plain HTTP"),
            "The certificate, followed by those that lead to its root. Needs `server.tls.key`.",
        ),
        Key::new(
            "key",
            Kind::Path,
            Unset("none: plain HTTP"),
            "The private key of the certificate. A file that others can read is refused.",
        ),
        Key::new(
            "client_ca",
            Kind::Path,
            Unset("none: callers need no certificate"),
            "Who signs the certificates of callers. With it nobody can connect without one, health checks \
             included; API keys are asked for all the same. Other nodes show none, so no calls are passed on \
             to this one.",
        ),
    ],
};

pub(super) const LIMITS: Section = Section {
    name: "server.limits",
    is_list: false,
    text: "What callers may take of the server. An address is an IPv4 address, or an IPv6 network of 64 \
           bits; behind a proxy it is the proxy's. See [operations](operations.md#limits).",
    keys: &[
        Key::new(
            "headers_timeout",
            duration(100, 10 * MINUTE_MS),
            Value("10s"),
            "How long the head of a call may take to come, from its first byte or the beginning of the \
             connection; and TLS to be agreed on.",
        ),
        Key::new(
            "body_timeout",
            duration(100, HOUR_MS),
            Value("30s"),
            "How long a call's whole body may take to come. Later than that the call is 408.",
        ),
        Key::new(
            "idle_timeout",
            duration(100, HOUR_MS),
            Value("2m"),
            "How long a connection may be without a call, or take nothing of what is sent to it (over \
             HTTP/2, of any answer). Above what proxies and clients wait (60 s to 90 s is usual), so that it is they who end connections.",
        ),
        Key::new(
            "connections",
            Kind::Integer { min: 1, max: 1_000_000 },
            Value("8192"),
            "The most connections in all. Never more than the open files that the system allows the \
             process, less 256.",
        ),
        Key::new(
            "connections_per_address",
            Kind::Integer { min: 1, max: 1_000_000 },
            Value("4096"),
            "The most connections from one address, loopback addresses too: no address can take all. A \
             proxy that needs more gets more here. Where too few open files make `connections` fewer, \
             never more than half of them.",
        ),
        Key::new(
            "streams_per_key",
            Kind::Integer { min: 1, max: 1_000_000 },
            Value("2000"),
            "The most event streams and WebSockets that one API key has open; while there are no keys, \
             all together. One more is 429.",
        ),
        Key::new(
            "calls_per_key",
            Kind::Integer { min: 0, max: 1_000_000 },
            Value("0"),
            "How many calls a second one API key may make, and as many at once; those that need no key do \
             not count. A batch counts as many as it has transactions, and a message over a node's \
             WebSocket counts as one. One more is 429, with `Retry-After` and `RateLimit-…`. 0 is no limit.",
        ),
        Key::new(
            "calls_per_address",
            Kind::Integer { min: 0, max: 1_000_000 },
            Value("0"),
            "The same for all calls with a good key, or with none where there are no keys yet, from one \
             address. What never needs a key, such as `/health/ready`, is counted by itself, at the same rate.",
        ),
        Key::new(
            "wrong_keys_per_address",
            Kind::Integer { min: 1, max: 1_000_000 },
            Value("10"),
            "How many unknown API keys from one address are looked for in the database a second, and ten \
             times as many at once. One more is 429 at once; good keys are let in whatever comes beside \
             them.",
        ),
    ],
};
