//! How a node is written: what it says of itself in a hash, what of it is in use in a string.

use std::collections::HashMap;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::backend::Life;
use crate::error::BackendError;
use crate::report::Usage;
use crate::{Health, Heartbeat, Node, NodeId, Registration, Resources, Status, Version};

pub(super) type Fields = HashMap<String, String>;

/// Fields and their values.
pub(super) type Pairs = Vec<(&'static str, String)>;

fn broken(what: &str) -> BackendError {
    BackendError::Failed(format!("what Redis has is not what was written there: {what}"))
}

fn json(value: &impl Serialize) -> String {
    // These types have string keys and no other way to fail.
    serde_json::to_string(value).unwrap_or_default()
}

fn status(status: Status) -> String {
    match status {
        Status::Online => "online",
        Status::Offline => "offline",
    }
    .to_owned()
}

fn health(health: Health) -> String {
    match health {
        Health::Online => "Online",
        Health::Offline => "Offline",
        Health::NotReady => "NotReady",
    }
    .to_owned()
}

/// Shares in use as they are written.
pub(super) fn usage(usage: Usage) -> String {
    let gpu = usage.gpu.map(|gpu| gpu.to_string()).unwrap_or_default();
    format!("{}:{gpu}:{}", usage.cpu, usage.memory)
}

/// What a start that lives says of itself with each heartbeat: `SEQUENCE:LIFE:CPU:GPU:MEMORY`.
pub(super) fn sign_of_life(sequence: u64, life_ms: u64, said: Usage) -> String {
    format!("{sequence}:{life_ms}:{}", usage(said))
}

/// The sequence in it.
pub(super) fn sequence(sign: &str) -> Option<u64> {
    sign.split_once(':')?.0.parse().ok()
}

pub(super) fn registration(registration: &Registration) -> Pairs {
    vec![
        ("status", status(registration.status)),
        ("health", health(registration.health)),
        ("pools", json(&registration.pools)),
        ("services", json(&registration.services)),
        ("installed", json(&registration.installed_services)),
        ("features", json(&registration.features)),
        ("max", registration.resources.max_concurrency.to_string()),
    ]
}

/// What a heartbeat changes in the hash.
pub(super) fn heartbeat(heartbeat: &Heartbeat) -> Pairs {
    let said = [
        ("status", heartbeat.status.map(status)),
        ("health", heartbeat.health.map(health)),
        ("pools", heartbeat.pools.as_ref().map(json)),
        ("services", heartbeat.services.as_ref().map(json)),
        ("installed", heartbeat.installed_services.as_ref().map(json)),
        ("features", heartbeat.features.as_ref().map(json)),
        ("max", heartbeat.resources.map(|report| report.max_concurrency.to_string())),
    ];
    said.into_iter().filter_map(|(field, value)| Some((field, value?))).collect()
}

/// Reads `INCARNATION:SEQUENCE`, with `:x` behind it if the node was removed.
pub(super) fn version(text: &str) -> Result<(Version, bool), BackendError> {
    let (plain, removed) = match text.strip_suffix(":x") {
        Some(plain) => (plain, true),
        None => (text, false),
    };
    let (incarnation, sequence) = plain.split_once(':').ok_or_else(|| broken(text))?;
    let number = |part: &str| part.parse().map_err(|_| broken(text));
    Ok((Version { incarnation: number(incarnation)?, sequence: number(sequence)? }, removed))
}

/// What is read of the life of a start: the string, and when it runs out: in so many milliseconds, and
/// by the clock of Redis. Both are negative if there is none.
pub(super) type Alive = (Option<String>, i64, i64);

/// Reads a sign of life.
pub(super) fn life((text, remaining, dies_at): &Alive) -> Result<Option<Life>, BackendError> {
    let (Some(text), Ok(remaining), Ok(dies_at)) =
        (text, u64::try_from(*remaining), u64::try_from(*dies_at))
    else {
        return Ok(None);
    };
    let broken = || broken(text);
    let parts: Vec<&str> = text.split(':').collect();
    let [_sequence, life, cpu, gpu, memory] = parts[..] else {
        return Err(broken());
    };
    let share = |part: &str| part.parse::<f64>().map_err(|_| broken());
    let life: u64 = life.parse().map_err(|_| broken())?;
    Ok(Some(Life {
        remaining: Duration::from_millis(remaining),
        at_ms: dies_at.saturating_sub(life),
        usage: Usage {
            cpu: share(cpu)?,
            gpu: if gpu.is_empty() { None } else { Some(share(gpu)?) },
            memory: share(memory)?,
        },
    }))
}

fn field<'a>(fields: &'a Fields, name: &str) -> Result<&'a str, BackendError> {
    fields.get(name).map(String::as_str).ok_or_else(|| broken(&format!("no {name}")))
}

fn parsed<T: DeserializeOwned>(fields: &Fields, name: &str) -> Result<T, BackendError> {
    serde_json::from_str(field(fields, name)?).map_err(|error| broken(&format!("{name}: {error}")))
}

/// Reads a node from its hash, and what of it is in use.
pub(super) fn node(
    id: &NodeId,
    version: Version,
    life: &Life,
    running: u32,
    fields: &Fields,
) -> Result<Node, BackendError> {
    let max = field(fields, "max")?;
    let mut resources = Resources {
        max_concurrency: max.parse().map_err(|_| broken(&format!("max is {max:?}")))?,
        current_jobs: running,
        cpu_usage: 0.0,
        gpu_usage: None,
        memory_usage: 0.0,
    };
    life.usage.apply(&mut resources);
    Ok(Node {
        id: id.clone(),
        incarnation: version.incarnation,
        sequence: version.sequence,
        status: if field(fields, "status")? == "online" { Status::Online } else { Status::Offline },
        health: match field(fields, "health")? {
            "Online" => Health::Online,
            "NotReady" => Health::NotReady,
            _ => Health::Offline,
        },
        pools: parsed(fields, "pools")?,
        services: parsed(fields, "services")?,
        resources,
        installed_services: parsed(fields, "installed")?,
        features: parsed(fields, "features")?,
        last_heartbeat_ms: life.at_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ResourceReport;

    const VERSION: Version = Version { incarnation: 5, sequence: 6 };

    fn fields(pairs: Pairs) -> Fields {
        pairs.into_iter().map(|(field, value)| (field.to_owned(), value)).collect()
    }

    fn alive(report: &ResourceReport) -> Life {
        let text = sign_of_life(VERSION.sequence, 30_000, Usage::said(report));
        assert_eq!(sequence(&text), Some(VERSION.sequence));
        life(&(Some(text), 29_000, 30_007)).unwrap().unwrap()
    }

    #[test]
    fn a_node_is_read_as_it_was_written() {
        let id = NodeId::new("n").unwrap();
        let text = r#"{"id":"n","health":"NotReady","status":"offline","pools":["p"],"services":{"asr":["zh"]},
            "resources":{"maxConcurrency":4,"cpuUsage":0.25,"gpuUsage":0.5,"memoryUsage":0.75},
            "installedServices":["a b"],"features":{"x":{"y":[1]}}}"#;
        let mut said: Registration = serde_json::from_str(text).unwrap();
        let life = alive(&said.resources);
        assert_eq!(life.remaining, Duration::from_secs(29));
        let node = node(&id, VERSION, &life, 1, &fields(registration(&said))).unwrap();
        assert_eq!((node.version(), node.last_heartbeat_ms), (VERSION, 7));
        assert_eq!((node.health, node.status), (said.health, said.status));
        assert_eq!((&node.pools, &node.services), (&said.pools, &said.services));
        assert_eq!(
            (&node.installed_services, &node.features),
            (&said.installed_services, &said.features)
        );
        assert_eq!(node.resources, said.resources.with_jobs(1));
        said.resources.gpu_usage = None;
        assert_eq!(alive(&said.resources).usage.gpu, None);
    }

    #[test]
    fn what_somebody_else_wrote_is_refused_in_words() {
        let error = life(&(Some("6:30000:much::0".to_owned()), 1, 1)).unwrap_err();
        assert!(error.to_string().contains("much"), "{error}");
        assert!(life(&(Some("6:30000".to_owned()), 1, 1)).is_err());
        assert_eq!(life(&(None, -2, -2)).unwrap(), None);
        let id = NodeId::new("n").unwrap();
        let mut wrong = fields(registration(&Registration::new(id.clone(), 1)));
        let life = alive(&ResourceReport::default());
        wrong.insert("max".to_owned(), "many".to_owned());
        let error = node(&id, VERSION, &life, 0, &wrong).unwrap_err();
        assert!(error.to_string().contains("max is \"many\""), "{error}");
        wrong.remove("max");
        assert!(node(&id, VERSION, &life, 0, &wrong).is_err());
        assert!(version("x").is_err() && version("1:b").is_err());
        let one_two = Version { incarnation: 1, sequence: 2 };
        assert_eq!(version("1:2:x").unwrap(), (one_two, true));
        assert_eq!(version("1:2").unwrap(), (one_two, false));
    }

    #[test]
    fn a_heartbeat_writes_what_it_says_and_no_more() {
        assert!(heartbeat(&Heartbeat::of(1)).is_empty());
        let said = Heartbeat { health: Some(Health::Offline), ..Heartbeat::of(1) };
        assert_eq!(heartbeat(&said), [("health", "Offline".to_owned())]);
    }
}
