//! Signs of life: most need no script.

use std::sync::Arc;

use super::link::Wire;
use super::{Redis, answers, record, scripts};
use crate::backend::Wrote;
use crate::clock::milliseconds;
use crate::error::BackendError;
use crate::report::Usage;
use crate::{Heartbeat, Node, NodeId, Version};

impl Redis {
    /// A heartbeat that says nothing new prolongs the life of a start that lives, and needs no script
    /// for it. None if there is more to it.
    pub(super) async fn prolong(
        &self,
        heartbeat: &Heartbeat,
        known: Option<&Node>,
    ) -> Result<Option<Arc<Node>>, BackendError> {
        let Some(known) = known.filter(|known| !heartbeat.is_news(known)) else {
            return Ok(None);
        };
        if !self.channel.is_empty() {
            // Somebody has to say so to those who subscribe.
            return Ok(None);
        }
        let usage = heartbeat.resources.as_ref().map(Usage::said);
        let usage = usage.unwrap_or_else(|| Usage::of(&known.resources));
        let node_ttl = milliseconds(self.settings.node_ttl);
        let mut command = redis::cmd("SET");
        command
            .arg(self.keys.live(&known.id, known.incarnation))
            .arg(record::sign_of_life(known.sequence, node_ttl, usage))
            .arg(&["XX", "GET", "PX"])
            .arg(node_ttl);
        let exchange = |mut wire: Wire| async move { command.query_async(&mut wire).await };
        let exchange = self.link.run(self.settings.redis_timeout, exchange);
        // While the answer is on its way.
        let node = async {
            let mut node = known.clone();
            heartbeat.apply(&mut node, known.resources.current_jobs);
            node.last_heartbeat_ms = self.clock.now_ms();
            Arc::new(node)
        };
        let (before, node) = futures::future::join(exchange, node).await;
        // Nothing, or of another version: Redis does not know what its caller knows.
        let before: Option<String> = before?;
        let same = before.as_deref().and_then(record::sequence) == Some(known.sequence);
        Ok(same.then_some(node))
    }

    /// A heartbeat with news, or of somebody unknown.
    pub(super) async fn tell(
        &self,
        id: &NodeId,
        heartbeat: &Heartbeat,
        floor: Version,
    ) -> Result<Wrote, BackendError> {
        let same = floor.incarnation == heartbeat.incarnation;
        let mut call = self.on_node(&scripts::HEARTBEAT, id);
        call.arg(heartbeat.incarnation)
            .arg(heartbeat.sequence.map(|number| number.to_string()).unwrap_or_default())
            .arg(if same { floor.sequence } else { 0 });
        self.lifetimes(&mut call);
        let usage = heartbeat.resources.as_ref().map(Usage::said);
        call.arg(usage.map(record::usage).unwrap_or_default()).arg(&self.channel);
        let answer = self.write(call, record::heartbeat(heartbeat)).await?;
        let wrote = answers::wrote(id, answer, self.settings.node_ttl)?;
        if let Wrote::Done(record) = &wrote {
            self.clock.is(record.node.last_heartbeat_ms);
        }
        Ok(wrote)
    }
}
