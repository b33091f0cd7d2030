//! The rules are written twice, as scripts and in Rust: whatever is said, both answer the same.

use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::collection::vec;
use proptest::prelude::*;
use stile_registry::{
    Health, Heartbeat, JobId, NodeId, Registration, Registry, RegistryError, ResourceReport, Status,
};

use crate::common::{Stage, id};

#[derive(Debug, Clone)]
enum Step {
    Register { node: u8, start: u64, max: u32, ready: bool },
    Heartbeat { node: u8, start: u64, sequence: Option<u64>, max: Option<u32>, ready: Option<bool> },
    Remove { node: u8, start: Option<u64> },
    Reserve { node: u8 },
    Confirm { job: usize },
    Release { job: usize },
    Look { node: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    let (node, start, max) = (0..2u8, 1..5u64, 0..4u32);
    prop_oneof![
        (node.clone(), start.clone(), max.clone(), any::<bool>())
            .prop_map(|(node, start, max, ready)| Step::Register { node, start, max, ready }),
        (
            node.clone(),
            start.clone(),
            proptest::option::of(1..9u64),
            proptest::option::of(max),
            proptest::option::of(any::<bool>())
        )
            .prop_map(|(node, start, sequence, max, ready)| Step::Heartbeat {
                node,
                start,
                sequence,
                max,
                ready
            }),
        (node.clone(), proptest::option::of(start))
            .prop_map(|(node, start)| Step::Remove { node, start }),
        node.clone().prop_map(|node| Step::Reserve { node }),
        node.clone().prop_map(|node| Step::Reserve { node }),
        (0..6usize).prop_map(|job| Step::Confirm { job }),
        (0..6usize).prop_map(|job| Step::Release { job }),
        node.prop_map(|node| Step::Look { node }),
    ]
}

/// One of the two, and the slots that it gave.
struct Side {
    registry: Registry,
    case: String,
    jobs: Vec<Option<JobId>>,
}

impl Side {
    fn node(&self, number: u8) -> NodeId {
        id(&format!("{}-{number}", self.case))
    }

    fn job(&self, number: usize) -> Option<JobId> {
        self.jobs.get(number).cloned().flatten()
    }

    /// Does it and says what came of it, in words that have nothing to do with which side it is.
    async fn take(&mut self, step: &Step) -> String {
        let said = |ready| {
            let health = if ready { Health::Online } else { Health::NotReady };
            (Status::Online, health)
        };
        match step.clone() {
            Step::Register { node, start, max, ready } => {
                let mut registration = Registration::new(self.node(node), max);
                registration.incarnation = Some(start);
                (registration.status, registration.health) = said(ready);
                let written = self.registry.register(&registration).await;
                outcome(written.map(|node| format!("{} {:?}", node.version(), node.resources)))
            }
            Step::Heartbeat { node, start, sequence, max, ready } => {
                let report = |max| ResourceReport { max_concurrency: max, ..Default::default() };
                let beat = Heartbeat {
                    sequence,
                    health: ready.map(|ready| said(ready).1),
                    resources: max.map(report),
                    ..Heartbeat::of(start)
                };
                match self.registry.heartbeat(&self.node(node), &beat).await {
                    // Of a start from before the one that was removed, either may be said.
                    Err(RegistryError::Removed { version, .. }) if version.incarnation > start => {
                        format!("node-stale {version}")
                    }
                    // How many jobs run is left out: a heartbeat without news answers with what was
                    // looked at last, behind an earlier answer. `Look` compares the record itself.
                    written => outcome(written.map(|node| {
                        let max = node.resources.max_concurrency;
                        format!("{} {:?} {max}", node.version(), node.health)
                    })),
                }
            }
            Step::Remove { node, start } => {
                let removed = self.registry.remove(&self.node(node), start).await;
                outcome(removed.map(|version| version.to_string()))
            }
            Step::Reserve { node } => {
                let reserved = self.registry.reserve(&self.node(node)).await;
                let job = reserved.unwrap().map(|reserved| reserved.job);
                self.jobs.push(job);
                format!("{:?}", self.jobs.last().unwrap().is_some())
            }
            Step::Confirm { job } => match self.job(job) {
                Some(job) => outcome(self.registry.confirm(&job).await.map(|_| "on".to_owned())),
                None => String::new(),
            },
            Step::Release { job } => match self.job(job) {
                Some(job) => format!("{:?}", self.registry.release(&job).await.unwrap()),
                None => String::new(),
            },
            Step::Look { node } => {
                let id = self.node(node);
                let node = self.registry.get_node(&id).await.unwrap();
                let capacity = self.registry.capacity(&id).await.unwrap();
                format!("{:?} {capacity:?}", node.map(|node| (node.version(), node.health)))
            }
        }
    }
}

fn outcome(result: Result<String, RegistryError>) -> String {
    use RegistryError::{Removed, Stale};
    match result {
        Ok(said) => said,
        Err(error) => match &error {
            Stale { version, .. } | Removed { version, .. } => {
                format!("{} {version}", error.code())
            }
            _ => error.code().to_owned(),
        },
    }
}

#[test]
fn scripts_and_process_answer_the_same() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (here, redis) = runtime.block_on(async {
        let mut stage = Stage::standalone().await;
        (Stage::in_process().instance().await, stage.instance().await)
    });
    let config = ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() };
    let next = AtomicUsize::new(0);
    proptest!(config, |(steps in vec(step(), 1..40))| {
        let case = next.fetch_add(1, Ordering::Relaxed);
        let side = |registry: &Registry| Side {
            registry: registry.clone(),
            case: format!("case-{case}"),
            jobs: Vec::new(),
        };
        let (mut one, mut other) = (side(&here), side(&redis));
        for step in &steps {
            let answers = runtime.block_on(async { (one.take(step).await, other.take(step).await) });
            prop_assert_eq!(&answers.0, &answers.1, "{:?}", step);
        }
    });
}
