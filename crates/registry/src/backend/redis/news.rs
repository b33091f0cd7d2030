//! What Redis tells of other instances' writes.
//!
//! One server tells on the connection that is there anyway, and does not tell an instance of its own
//! writes; to the masters of a cluster, and where writers publish, there are connections of their own.
//! Whether anything is told matters for speed alone; what is not told is found by the version checks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, PushInfo,
    PushKind, RedisResult, Value,
};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::keys::Keys;
use super::link::{Link, Wire};
use crate::backend::News;
use crate::clock::jittered;
use crate::metrics;
use crate::registry::Inner;
use crate::settings::Invalidation;

/// How long until another attempt after the connections are lost.
const PAUSE: Duration = Duration::from_millis(500);

/// How often the masters of a cluster are looked for again.
const LOOK: Duration = Duration::from_secs(10);

/// Listens until the registry ends: to what one server tells on the connection that is there anyway,
/// and to connections of its own where there are several servers, or where writers publish.
pub(super) async fn run(
    link: &Arc<Link>,
    keys: &Keys,
    inner: &Arc<Inner>,
    told: mpsc::UnboundedReceiver<PushInfo>,
) {
    let how = inner.settings.invalidation;
    if how == Invalidation::Off {
        return;
    }
    let by_itself = pass_on(told, keys, inner, false);
    let by_own_connections = async {
        loop {
            if let Err(error) = listen(link, keys, inner, how).await {
                tracing::debug!(%error, "Redis does not tell what changes; versions are checked");
            }
            sleep(jittered(PAUSE, PAUSE)).await;
        }
    };
    futures::future::join(by_itself, by_own_connections).await;
}

/// Passes on what is told, until a connection is lost if that matters.
async fn pass_on(
    mut told: mpsc::UnboundedReceiver<PushInfo>,
    keys: &Keys,
    inner: &Arc<Inner>,
    until_lost: bool,
) {
    while let Some(push) = told.recv().await {
        if until_lost && push.kind == PushKind::Disconnection {
            return;
        }
        changed(&push).iter().filter_map(|key| keys.news(key)).for_each(|news| inner.heard(news));
    }
}

async fn listen(
    link: &Arc<Link>,
    keys: &Keys,
    inner: &Arc<Inner>,
    how: Invalidation,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let wire = link.wire().await?;
    let is_cluster = matches!(*wire, Wire::Cluster(_));
    if !is_cluster && how == Invalidation::Tracking {
        // One server tells on the connection that is there anyway; whether it still is one server is
        // looked at now and then.
        sleep(LOOK).await;
        return Ok(());
    }
    let servers = servers(link, &wire, how).await?;
    let (tell, told) = mpsc::unbounded_channel();
    let opened = servers.values().map(|server| open(server, keys, how, tell.clone()));
    let opened: RedisResult<Vec<_>> = join_all(opened).await.into_iter().collect();
    let _connections = opened?;
    let moved = async {
        loop {
            sleep(LOOK).await;
            let now = self::servers(link, &wire, how).await?;
            if now.keys().ne(servers.keys()) {
                return RedisResult::Ok(());
            }
        }
    };
    tokio::select! {
        () = pass_on(told, keys, inner, true) => Ok(()),
        moved = moved, if is_cluster => Ok(moved?),
    }
}

/// Whom to listen to, by address: published messages reach every server of a cluster, changes of keys
/// are told by the master that has them.
async fn servers(
    link: &Link,
    wire: &Wire,
    how: Invalidation,
) -> RedisResult<BTreeMap<String, ConnectionInfo>> {
    let first = link.servers().iter().take(1).cloned();
    let alone = first.map(|server| (server.addr().to_string(), server)).collect();
    let Wire::Cluster(cluster) = wire else {
        return Ok(alone);
    };
    let slots: Vec<Vec<Value>> =
        redis::cmd("CLUSTER").arg("SLOTS").query_async(&mut cluster.clone()).await?;
    let mut masters = BTreeMap::new();
    for slot in slots {
        // First slot, last slot, then the servers, the master first: address, port, and more.
        let Some(Value::Array(master)) = slot.into_iter().nth(2) else { continue };
        let mut master = master.into_iter();
        let (Some(host), Some(port)) = (master.next(), master.next()) else { continue };
        let (host, port): (String, u16) =
            (redis::from_redis_value(host)?, redis::from_redis_value(port)?);
        let Some(pattern) = link.servers().first() else { continue };
        let tls = matches!(pattern.addr(), redis::ConnectionAddr::TcpTls { .. });
        let scheme = if tls { "rediss" } else { "redis" };
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let server = format!("{scheme}://{host}:{port}").into_connection_info()?;
        let server = server.set_redis_settings(pattern.redis_settings().clone());
        masters.insert(format!("{host}:{port}"), server);
    }
    match how {
        Invalidation::PubSub => Ok(masters.into_iter().take(1).collect()),
        Invalidation::Tracking | Invalidation::Off => Ok(masters),
    }
}

async fn open(
    server: &ConnectionInfo,
    keys: &Keys,
    how: Invalidation,
    tell: mpsc::UnboundedSender<PushInfo>,
) -> RedisResult<MultiplexedConnection> {
    let settings = server.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    let client = Client::open(server.clone().set_redis_settings(settings))?;
    let limit = Some(Duration::from_secs(2));
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(limit)
        .set_response_timeout(limit)
        .set_push_sender(tell);
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    if how == Invalidation::PubSub {
        connection.subscribe(keys.channel()).await?;
        return Ok(connection);
    }
    let mut tracking = redis::cmd("CLIENT");
    tracking.arg("TRACKING").arg("ON").arg("BCAST");
    for prefix in keys.tracked() {
        tracking.arg("PREFIX").arg(prefix);
    }
    tracking.query_async::<()>(&mut connection).await?;
    Ok(connection)
}

/// The keys that a message is about.
fn changed(push: &PushInfo) -> Vec<String> {
    let texts = |values: &[Value]| values.iter().filter_map(text).collect();
    match (&push.kind, push.data.as_slice()) {
        (PushKind::Invalidate, [Value::Array(keys), ..]) => texts(keys),
        (PushKind::Message, [_, key]) => text(key).into_iter().collect(),
        _ => Vec::new(),
    }
}

fn text(value: &Value) -> Option<String> {
    redis::from_redis_value_ref(value).ok()
}

impl Inner {
    /// Somebody has written. What somebody here wants is looked at at once, the rest when it is
    /// wanted.
    fn heard(&self, news: News) {
        use crate::registry::Work;
        use std::sync::atomic::Ordering;

        metrics::invalidated();
        match news {
            News::Node(id) => {
                self.cache.negative.remove(&id);
                if let Some(slot) = self.cache.slot(&id) {
                    slot.doubt();
                    if slot.wanted.load(Ordering::Relaxed) {
                        self.queue(Work::Node(slot));
                    }
                }
            }
            News::Config(name) => {
                if let Some(config) = self.configs.pin().get(name.as_str()) {
                    config.doubt();
                    self.queue(Work::Config(Arc::clone(config)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_both_kinds_name_keys() {
        let key = Value::BulkString(b"stile:ver:{node:n}".to_vec());
        let invalidate = PushInfo {
            kind: PushKind::Invalidate,
            data: vec![Value::Array(vec![key.clone(), key.clone()])],
        };
        assert_eq!(changed(&invalidate).len(), 2);
        let channel = Value::BulkString(b"stile:news".to_vec());
        let message = PushInfo { kind: PushKind::Message, data: vec![channel, key] };
        assert_eq!(changed(&message), ["stile:ver:{node:n}"]);
        let flushed = PushInfo { kind: PushKind::Invalidate, data: vec![Value::Nil] };
        assert!(changed(&flushed).is_empty(), "everything was dropped; versions are checked");
    }
}
