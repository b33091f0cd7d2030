//! A proxy before a chain node or a remote signer: sees every JSON-RPC call, and gets in its way.
//!
//! ```text
//!  client ──→ front (TcpProxy) ──→ HTTP server ──→ chain node
//!             refuses               log, hook,
//!                                   delays, holds,
//!                                   fails, lies
//! ```
//!
//! | file | what is in it |
//! |---|---|
//! | `log` | what was seen |
//! | `faults` | what it has been told to do wrong |
//! | `serve` | what happens to one request |

mod faults;
mod log;
mod serve;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::B256;
use futures::FutureExt;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub use self::faults::Reaction;
pub use self::log::{Seen, SentRaw};

use self::faults::{Batches, Failure, Faults, Lie, Status};
use self::log::Log;
use crate::proxy::TcpProxy;
use crate::wait::DEADLINE;

/// Stands between a JSON-RPC client and its server, and understands single requests and batches.
/// Belongs to the runtime it was started on; dropped, it closes everything.
#[derive(Debug)]
pub struct RpcProxy {
    front: TcpProxy,
    shared: Arc<Shared>,
    _server: JoinSet<()>,
}

/// What every request needs.
#[derive(Debug)]
struct Shared {
    target: String,
    client: reqwest::Client,
    log: Log,
    faults: Faults,
}

impl RpcProxy {
    /// Starts passing on to this URL from a free port of 127.0.0.1.
    pub async fn start(target_url: &str) -> Self {
        let client = reqwest::Client::builder().no_proxy().timeout(DEADLINE).build();
        let shared = Arc::new(Shared {
            target: target_url.to_owned(),
            client: client.expect("build an HTTP client"),
            log: Log::default(),
            faults: Faults::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen on a free port");
        let behind = listener.local_addr().expect("the address of a listener");
        let mut server = JoinSet::new();
        server.spawn(serve::run(listener, Arc::clone(&shared)));
        Self { front: TcpProxy::start(behind).await, shared, _server: server }
    }

    /// Where clients connect; the same as long as the proxy lives. Whatever path they add, it is
    /// the target's URL that is called.
    pub fn url(&self) -> String {
        format!("http://{}", self.front.addr())
    }

    /// Every call since the start or the last [`RpcProxy::reset`], in the order they came; those
    /// that were then failed or held too.
    pub fn calls(&self) -> Vec<Seen> {
        self.shared.log.calls()
    }

    /// How often a method was called.
    pub fn count(&self, method: &str) -> u64 {
        self.counts().get(method).copied().unwrap_or(0)
    }

    /// How often each method was called.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.shared.log.counts()
    }

    /// Every `eth_sendRawTransaction`, in the order they came; those that were then failed or held
    /// too, since the bytes had left their sender.
    pub fn sent_raw(&self) -> Vec<SentRaw> {
        self.shared.log.sent_raw()
    }

    /// Forgets all calls seen so far.
    pub fn reset(&self) {
        self.shared.log.reset();
    }

    /// Each call of this method takes this much longer, until [`RpcProxy::heal`].
    pub fn delay(&self, method: &str, by: Duration) {
        self.shared.faults.set(|rules| {
            rules.delays.insert(method.to_owned(), by);
        });
    }

    /// Each request takes this much longer, until [`RpcProxy::heal`].
    pub fn delay_all(&self, by: Duration) {
        self.shared.faults.set(|rules| rules.delay = Some(by));
    }

    /// Each batch of more calls than this is answered with one error and not passed on, until
    /// [`RpcProxy::heal`]; with 0, each batch.
    pub fn longest_batch(&self, calls: usize, code: i64, message: &str) {
        let failure = Failure { code, message: message.to_owned() };
        self.shared.faults.set(|rules| rules.longest_batch = Some((calls, failure)));
    }

    /// Each batch is passed on and answered with this HTTP status and what is made of its answers, until
    /// [`RpcProxy::heal`].
    pub fn answer_batches(
        &self,
        http_status: u16,
        write: impl Fn(Vec<Value>) -> String + Send + Sync + 'static,
    ) {
        let batches = Batches { status: http_status, write: Arc::new(write) };
        self.shared.faults.set(|rules| rules.batches = Some(batches));
    }

    /// Each call of this method is answered with this error and not passed on, until
    /// [`RpcProxy::heal`].
    pub fn fail(&self, method: &str, code: i64, message: &str) {
        let failure = Failure { code, message: message.to_owned() };
        self.shared.faults.set(|rules| {
            rules.failures.insert(method.to_owned(), failure);
        });
    }

    /// Each `eth_sendRawTransaction` for whose bytes, in hexadecimal, `judge` has an error's code and
    /// message is answered with that error and not passed on, until [`RpcProxy::heal`].
    pub fn refuse_sends(
        &self,
        judge: impl Fn(&str) -> Option<(i64, String)> + Send + Sync + 'static,
    ) {
        self.shared.faults.set(|rules| rules.judge = Some(Arc::new(judge)));
    }

    /// Each `eth_sendRawTransaction` is answered with its hash, as if it had been taken, and not
    /// passed on, until [`RpcProxy::heal`].
    pub fn swallow_sends(&self) {
        self.shared.faults.set(|rules| rules.swallows_sends = true);
    }

    /// Calls of this method are passed on, and where `answer` has something for a call's parameters
    /// and its result, that is the result instead, until [`RpcProxy::heal`]. Errors stay what they
    /// are. Of several for one method the last counts first.
    pub fn lie(
        &self,
        method: &str,
        answer: impl Fn(&Value, &Value) -> Option<Value> + Send + Sync + 'static,
    ) {
        let lie = Lie { method: method.to_owned(), answer: Arc::new(answer) };
        self.shared.faults.set(|rules| rules.lies.push(lie));
    }

    /// Calls of this method are passed on, and their results come without this field, until
    /// [`RpcProxy::heal`]: in an object, or in each object of a list, like the receipts of a block.
    /// It comes after [`RpcProxy::lie`]; a method may lack several fields.
    pub fn strip(&self, method: &str, field: &str) {
        let missing = (method.to_owned(), field.to_owned());
        self.shared.faults.set(|rules| {
            rules.stripped.insert(missing);
        });
    }

    /// Each request with a call of this method is passed on, but its answer is lost: a status of
    /// 504 comes instead, until [`RpcProxy::heal`]. What was done was done; the caller cannot know.
    pub fn lose_answers(&self, method: &str) {
        self.shared.faults.set(|rules| {
            rules.lost.insert(method.to_owned());
        });
    }

    /// Each request is answered with this HTTP status and not passed on, until
    /// [`RpcProxy::heal`].
    pub fn fail_all(&self, http_status: u16) {
        self.shared.faults.set(|rules| rules.status = Some(http_status));
    }

    /// Each request with a call of this method is answered with this HTTP status, and with when to
    /// come back if that is given, and is not passed on, until [`RpcProxy::heal`].
    pub fn fail_with_status(&self, method: &str, http_status: u16, retry_after: Option<&str>) {
        let retry_after = retry_after.map(ToOwned::to_owned);
        let status = Status { status: http_status, retry_after };
        self.shared.faults.set(|rules| {
            rules.statuses.insert(method.to_owned(), status);
        });
    }

    /// Closes every connection and refuses new ones, until [`RpcProxy::heal`].
    pub async fn refuse(&self) {
        self.front.cut().await;
    }

    /// Keeps connections open and takes new ones, and lets no byte through, until
    /// [`RpcProxy::heal`]: then what has come meanwhile is answered, if anybody still waits.
    pub fn hang(&self) {
        self.front.freeze();
    }

    /// Asks this about each call, by its method and its parameters, before anything else but the hook
    /// happens to it. What it has to say is what becomes of the whole request. It is no fault that
    /// passes but what this endpoint is like: it stays when others are healed. The last one counts.
    pub fn is_like(
        &self,
        reaction: impl Fn(&str, &Value) -> Option<Reaction> + Send + Sync + 'static,
    ) {
        self.shared.faults.set_nature(Arc::new(reaction));
    }

    /// Calls of this method wait, and the batches they are in, until [`RpcProxy::release`]. A
    /// caller that gives up in the meantime takes its call along: it is not passed on later.
    pub fn hold(&self, method: &str) {
        self.shared.faults.hold(method);
    }

    /// Lets through what is held, and holds nothing any more.
    pub fn release(&self) {
        self.shared.faults.release();
    }

    /// Ends every fault but [`RpcProxy::hold`]. Connections that were closed stay closed; a hook
    /// stays, and so does what the endpoint is like.
    ///
    /// Panics if somebody took the port while it was refused.
    pub async fn heal(&self) {
        self.shared.faults.set(|rules| rules.clear());
        self.front.heal().await;
    }

    /// Runs this for each `eth_sendRawTransaction` that comes, with the transaction's hash, and
    /// passes the bytes on (or fails, delays or holds them) only after it has ended. What was
    /// committed before the bytes were sent can be seen from it; nothing that comes after can.
    ///
    /// A panic in it closes the connection and fails no test: have it write down what it finds.
    pub fn before_send<F>(&self, hook: impl Fn(B256) -> F + Send + Sync + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.shared.faults.set_hook(Arc::new(move |hash| hook(hash).boxed()));
    }
}
