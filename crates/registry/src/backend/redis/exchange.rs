//! Scripts and pipelines, sent and answered.

use std::time::Duration;

use futures::future::join_all;
use redis::{Cmd, ErrorKind, Pipeline, RedisResult, ServerErrorKind, ToRedisArgs};

use super::Redis;
use super::link::Wire;
use super::record::Pairs;
use super::scripts::Script;
use crate::NodeId;
use crate::clock::milliseconds;
use crate::error::BackendError;

/// A call of a script: written once, as it goes over the wire.
pub(super) struct Call {
    script: &'static Script,
    command: Cmd,
}

impl Call {
    pub(super) fn of(script: &'static Script, keys: &[String]) -> Self {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&script.hash).arg(keys.len()).arg(keys);
        Self { script, command }
    }

    pub(super) fn arg(&mut self, arg: impl ToRedisArgs) -> &mut Self {
        self.command.arg(arg);
        self
    }

    async fn send<T: redis::FromRedisValue>(&self, mut wire: Wire) -> RedisResult<T> {
        let unknown = ErrorKind::Server(ServerErrorKind::NoScript);
        match self.command.query_async(&mut wire).await {
            Err(error) if error.kind() == unknown => self.in_full().query_async(&mut wire).await,
            answer => answer,
        }
    }

    /// The same with the text of the script.
    fn in_full(&self) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(self.script.text);
        for arg in self.command.args_iter().skip(2) {
            match arg {
                redis::Arg::Simple(arg) => command.arg(arg),
                _ => &mut command,
            };
        }
        command
    }
}

impl Redis {
    /// Calls a script on the keys of a node.
    pub(super) fn on_node(&self, script: &'static Script, id: &NodeId) -> Call {
        Call::of(script, &self.keys.all(id))
    }

    pub(super) async fn call<T: redis::FromRedisValue>(
        &self,
        call: &Call,
    ) -> Result<T, BackendError> {
        self.link.run(self.settings.redis_timeout, |wire| call.send(wire)).await
    }

    pub(super) fn lifetimes(&self, call: &mut Call) {
        let settings = &self.settings;
        for ttl in
            [settings.node_ttl, settings.tombstone_ttl, settings.capacity_ttl, settings.job_ttl]
        {
            call.arg(milliseconds(ttl));
        }
    }

    pub(super) async fn write<T: redis::FromRedisValue>(
        &self,
        mut call: Call,
        pairs: Pairs,
    ) -> Result<T, BackendError> {
        for (field, value) in pairs {
            call.arg(field).arg(value);
        }
        self.call(&call).await
    }

    /// Asks the same of several nodes: in one go of one server, side by side of a cluster, where a
    /// connection carries them one behind the other as well.
    pub(super) async fn of_each<K, T: redis::FromRedisValue + Send>(
        &self,
        nodes: &[K],
        limit: Duration,
        ask: impl Fn(&mut Pipeline, &K),
    ) -> Result<Vec<T>, BackendError> {
        let pipelines = nodes.iter().map(|node| {
            let mut pipeline = redis::pipe();
            ask(&mut pipeline, node);
            pipeline
        });
        let pipelines: Vec<Pipeline> = pipelines.collect();
        self.link.run(limit, |wire| each(wire, pipelines)).await
    }
}

async fn each<T: redis::FromRedisValue>(
    wire: Wire,
    pipelines: Vec<Pipeline>,
) -> RedisResult<Vec<T>> {
    if let Wire::One(mut one) = wire {
        let mut all = redis::pipe();
        let mut lengths = Vec::with_capacity(pipelines.len());
        for pipeline in pipelines {
            lengths.push(pipeline.len());
            for command in pipeline.cmd_iter() {
                all.add_command(command.clone());
            }
        }
        let answers: Vec<redis::Value> = all.query_async(&mut one).await?;
        let mut answers = answers.into_iter();
        let own = |length| redis::Value::Array(answers.by_ref().take(length).collect());
        return lengths.into_iter().map(own).map(|own| Ok(redis::from_redis_value(own)?)).collect();
    }
    let sent = pipelines.into_iter().map(|pipeline| {
        let mut wire = wire.clone();
        async move { pipeline.query_async(&mut wire).await }
    });
    join_all(sent).await.into_iter().collect()
}
