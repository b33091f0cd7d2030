//! What Redis answers, in our words.

use std::sync::Arc;
use std::time::Duration;

use super::record::{self, Alive, Fields};
use super::strange;
use crate::backend::{Found, Record, Seen, Wrote};
use crate::error::BackendError;
use crate::{Capacity, NodeId, Version};

/// What a script that writes a node says of it.
pub(super) fn wrote(
    id: &NodeId,
    answer: Vec<redis::Value>,
    node_ttl: Duration,
) -> Result<Wrote, BackendError> {
    let read = |error: redis::ParsingError| strange(&error.to_string());
    let mut answer = answer.into_iter();
    let mut next = || answer.next().unwrap_or(redis::Value::Nil);
    let result: String = redis::from_redis_value(next()).map_err(read)?;
    let version = Version {
        incarnation: redis::from_redis_value(next()).map_err(read)?,
        sequence: redis::from_redis_value(next()).map_err(read)?,
    };
    match result.as_str() {
        "ok" => {}
        "unknown" => return Ok(Wrote::Unknown),
        "removed" => return Ok(Wrote::Removed(version)),
        "stale" => return Ok(Wrote::Stale(version)),
        other => return Err(strange(other)),
    }
    let now: i64 = redis::from_redis_value(next()).map_err(read)?;
    let running: u32 = redis::from_redis_value(next()).map_err(read)?;
    let reserved: u32 = redis::from_redis_value(next()).map_err(read)?;
    let tick: u64 = redis::from_redis_value(next()).map_err(read)?;
    let alive: Option<String> = redis::from_redis_value(next()).map_err(read)?;
    let fields: Fields = redis::from_redis_value(next()).map_err(read)?;
    let remaining = i64::try_from(node_ttl.as_millis()).unwrap_or(i64::MAX);
    let life = record::life(&(alive, remaining, now.saturating_add(remaining)))?;
    let life = life.ok_or_else(|| strange("a node that was written and does not live"))?;
    let node = Arc::new(record::node(id, version, &life, running, &fields)?);
    let capacity = Capacity { max: node.resources.max_concurrency, running, reserved };
    Ok(Wrote::Done(Box::new(Record { node, remaining: node_ttl, capacity, tick })))
}

/// Running, reserved and tick of a capacity; nothing is there before the first job. How many slots
/// there are is in the node's hash.
pub(super) type Slots = [Option<u64>; 3];

/// What is read of a node, beside its life: version, hash and capacity.
pub(super) type Read = (Option<String>, Fields, Slots);

pub(super) fn slots([running, reserved, tick]: Slots) -> (Capacity, u64) {
    let count = |field: Option<u64>| u32::try_from(field.unwrap_or_default()).unwrap_or(u32::MAX);
    let capacity = Capacity { max: 0, running: count(running), reserved: count(reserved) };
    (capacity, tick.unwrap_or_default())
}

pub(super) fn found(
    id: &NodeId,
    (version, fields, taken): &Read,
    alive: &Alive,
) -> Result<Found, BackendError> {
    let Some(version) = version else {
        return Ok(Found::Absent);
    };
    let (version, removed) = record::version(version)?;
    if removed {
        return Ok(Found::Removed(version));
    }
    let Some(life) = record::life(alive)?.filter(|_| !fields.is_empty()) else {
        return Ok(Found::Expired(version));
    };
    let (capacity, tick) = slots(*taken);
    let node = Arc::new(record::node(id, version, &life, capacity.running, fields)?);
    let capacity = Capacity { max: node.resources.max_concurrency, ..capacity };
    Ok(Found::Live(Box::new(Record { node, remaining: life.remaining, capacity, tick })))
}

pub(super) fn seen(
    version: Option<&str>,
    alive: &Alive,
    taken: Slots,
) -> Result<Seen, BackendError> {
    let Some(version) = version else {
        return Ok(Seen::Absent);
    };
    Ok(match record::version(version)? {
        (version, true) => Seen::Removed(version),
        (version, false) => {
            let (capacity, tick) = slots(taken);
            Seen::At { version, life: record::life(alive)?, capacity, tick }
        }
    })
}
