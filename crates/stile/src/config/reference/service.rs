//! The process itself and what it stands on.

use super::Preset::{Unset, Value};
use super::{DAY_MS, Key, MINUTE_MS, SECOND_MS, Section, duration};
use crate::config::value::{HumanDuration, Kind};
use crate::config::{Failover, LogFormat, LogLevel, NotHolder, Pooler};

const STORE_SCHEMES: &[&str] = &["sqlite", "postgres", "postgresql"];
const POSTGRES_SCHEMES: &[&str] = &["postgres", "postgresql"];
const HTTP_SCHEMES: &[&str] = &["http", "https"];

pub(super) const NODE: Section = Section {
    name: "node",
    is_list: false,
    text: "Who this process is.",
    keys: &[Key::new(
        "id",
        Kind::NodeId,
        Unset("the host name and the port"),
        "The name of this node in logs, in metrics and on the lanes it holds; no two nodes of a \
         cluster share one. `${NAME}` is replaced by the environment variable `NAME`.",
    )],
};

pub(super) const LOG: Section = Section {
    name: "log",
    is_list: false,
    text: "The log, which goes to standard error.",
    keys: &[
        Key::new(
            "level",
            Kind::Choice(LogLevel::NAMES),
            Value("info"),
            "How much is logged; each level includes those before it.",
        ),
        Key::new(
            "format",
            Kind::Choice(LogFormat::NAMES),
            Value("text"),
            "`\"text\"` for people, `\"json\"` for machines: one object per line.",
        ),
    ],
};

pub(super) const STORE: Section = Section {
    name: "store",
    is_list: false,
    text: "The database. The embedded store serves one process on one machine; PostgreSQL serves \
           a cluster.",
    keys: &[
        Key::new(
            "url",
            Kind::Url(STORE_SCHEMES),
            Value("sqlite://stile.db"),
            "`sqlite://stile.db` is relative to the working directory, `sqlite:///var/lib/stile.db` \
             is absolute; or `postgres://user@host/database`.",
        ),
        Key::new(
            "direct_url",
            Kind::Url(POSTGRES_SCHEMES),
            Unset("`store.url`"),
            "A way to PostgreSQL past the connection pooler, where `store.url` goes through \
             PgBouncer. Notifications are listened for here.",
        ),
        Key::new(
            "pooler",
            Kind::Choice(Pooler::NAMES),
            Value("none"),
            "`\"transaction\"` where `store.url` goes through PgBouncer in transaction mode: statements are \
             then sent along each time, because a prepared one would be looked for on another \
             connection. See [operations](operations.md#pgbouncer).",
        ),
        Key::new(
            "pool_size",
            Kind::Integer { min: 1, max: 1_000 },
            Value("20"),
            "The most connections to PostgreSQL this node opens for its work. Two more keep its leases, one \
             listens. The embedded store ignores it.",
        ),
        Key::new(
            "statement_timeout",
            duration(100, 10 * MINUTE_MS),
            Value("5s"),
            "How long one statement may run before PostgreSQL ends it. On the embedded store, how long a \
             read may take.",
        ),
        Key::new(
            "lock_timeout",
            duration(10, 10 * MINUTE_MS),
            Value("3s"),
            "How long a statement may wait for a lock. Not above `store.statement_timeout`.",
        ),
        Key::new(
            "failover",
            Kind::Choice(Failover::NAMES),
            Value("ask"),
            "Whether a failover of PostgreSQL can lose commits. With `\"synchronous\"` every failover goes to a standby \
             that is named in `synchronous_standby_names`, and everything goes on by itself. With `\"ask\"` what waits \
             after a failover is sent only once the chain, or a person, has told what was sent before. A \
             restored dump always asks, and so does a recovery from an archive where it can be told from a failover. \
             See [operations](operations.md#failover).",
        ),
        Key::new(
            "migrate",
            Kind::Boolean,
            Value("true"),
            "Whether `stile serve` brings the schema up to date when it starts. With `false` that is \
             left to `stile migrate`.",
        ),
    ],
};

/// For ever, or from a second to ten years.
const KEPT: Kind = Kind::Kept {
    min: HumanDuration::from_millis(SECOND_MS),
    max: HumanDuration::from_millis(3650 * DAY_MS),
};

pub(super) const RETENTION: Section = Section {
    name: "retention",
    is_list: false,
    text: "How long what is over is kept in the database. Every node removes its part, a little at a \
           time. See [operations](operations.md#retention-and-disk-use).",
    keys: &[
        Key::new(
            "finished",
            KEPT,
            Value("forever"),
            "How long transactions that are done are kept, with their attempts, their history and \
             their request ids; a request id that comes again after that makes a new transaction. One \
             that a reorganisation could still reopen is kept in any case.",
        ),
        Key::new(
            "holds",
            KEPT,
            Value("forever"),
            "How long holds that are over are kept, with their idempotency keys: those whose nonce the \
             chain shows used, and those given back whose nonce somebody else got. Needs \
             `nonce.chain_query.enabled` for the former.",
        ),
    ],
};

pub(super) const CLUSTER: Section = Section {
    name: "cluster",
    is_list: false,
    text: "How the nodes on one PostgreSQL work together.",
    keys: &[
        Key::new(
            "advertise_url",
            Kind::Url(HTTP_SCHEMES),
            Unset("none: callers are not told where to go"),
            "The URL by which other nodes and callers reach this node. It is stored on the lanes \
             this node holds and told to those who ask the wrong node. `https://`, unless it is on \
             this machine or `cluster.trusted_network` is set.",
        ),
        Key::new(
            "not_holder",
            Kind::Choice(NotHolder::NAMES),
            Value("accept"),
            "What to do with a call for a lane which another node holds. `\"accept\"`: transactions are \
             accepted for the holder, and what only the holder can do, such as giving out a bare nonce, \
             is passed on to it. `\"forward\"`: transactions are passed on too (needs \
             `cluster.advertise_url`). `\"reject\"`: it is refused with 409, which names the holder. \
             Nothing is passed on to a node without `cluster.advertise_url`.",
        ),
        Key::new(
            "secret",
            Kind::Secret,
            Unset("none: calls are passed on only while there are no API keys"),
            "Where the text is kept, at least 32 visible characters, by which the nodes of a cluster \
             prove themselves to each other when they pass calls on; the same for all of them. It is \
             never sent: calls are signed by it. What could be guessed is refused; \
             `openssl rand -hex 32` makes a good one.",
        ),
        Key::new(
            "ca",
            Kind::Path,
            Unset("the authorities that the system believes"),
            "A file with the certificates, in PEM, of the authorities that sign the certificates of the \
             nodes. With it, calls are passed on only to nodes whose certificate one of them has signed.",
        ),
        Key::new(
            "identity",
            Kind::Path,
            Unset("none: this node shows no certificate"),
            "A file with a certificate and its private key, in PEM, that this node shows to other nodes \
             when it passes calls on. Needed where they ask callers for one (`server.tls.client_ca`). \
             Read at the start.",
        ),
        Key::new(
            "trusted_network",
            Kind::Boolean,
            Value("false"),
            "Whether nodes may pass calls on to other machines without TLS. Set it only where nobody \
             else is on the network between the nodes, as in an encrypted overlay: whoever is can read \
             every call and answer in a node's place.",
        ),
        Key::new(
            "move_lanes",
            Kind::Boolean,
            Value("true"),
            "Whether signers move to the node that they had best be on, so that nodes which come and \
             go share the work. Between nodes in worker-queue mode that serve the same signers and have \
             `cluster.advertise_url`; the others keep what they have.",
        ),
    ],
};
