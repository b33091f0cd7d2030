//! What is printed in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Options;
use super::sources::Sources;
use super::stage::Stage;
use crate::check::Coverage;
use crate::evidence::{Answer, Ask, Call, Evidence, LieTold};
use crate::schedule::{Kind, Kinds};

/// Counts of a run.
#[derive(Debug, Clone)]
pub struct Figures {
    /// What was counted, with its name.
    pub lines: Vec<(&'static str, u64)>,
    /// Faults by kind, as they were carried out.
    pub faults: BTreeMap<Kind, u64>,
    /// What was reached.
    pub coverage: Coverage,
    /// Whom nodes learned of each other from; `None` where there was no Redis.
    pub sources: Option<Sources>,
    /// Whether it was about commits that get lost.
    pub restores: bool,
    /// What could come.
    pub kinds: Kinds,
    /// How long the whole run took.
    pub took: Duration,
}

impl Figures {
    pub(super) fn of(
        stage: &Stage,
        evidence: &Evidence,
        coverage: &Coverage,
        options: &Options,
        took: Duration,
    ) -> Self {
        let sends = || {
            evidence.calls.iter().filter_map(|call| match &call.ask {
                Ask::Send { request_id, .. } => Some((request_id, call)),
                _ => None,
            })
        };
        let of_kind = |wanted: fn(&Ask) -> bool| {
            evidence
                .calls
                .iter()
                .filter(|call| wanted(&call.ask) && call.answer.is_success())
                .count()
        };
        let asked: BTreeSet<_> = sends().map(|(request, _)| request).collect();
        let taken = sends().filter(|(_, call)| call.answer.is_success());
        let taken: BTreeSet<_> = taken.map(|(request, _)| request).collect();
        let with_status =
            |status| sends().filter(|(_, c)| c.answer.status() == Some(status)).count();
        let in_state = |state: &str| evidence.txs.iter().filter(|tx| tx.state == state).count();
        let sum = |count: fn(&super::node::Node) -> u64| stage.nodes.iter().map(|n| count(n)).sum();
        let mut lines: Vec<(&'static str, u64)> = Vec::new();
        let mut line = |name, count: usize| lines.push((name, count as u64));
        let sources = stage.sources();
        line("with Redis", usize::from(sources.is_some()));
        line("with restores", usize::from(options.restores));
        line("calls", evidence.calls.len());
        line("calls without an answer", evidence.calls.iter().filter(is_unanswered).count());
        line("requests", asked.len());
        line("accepted", taken.len());
        line("answered as new (202)", with_status(202));
        line("answered as known (200)", with_status(200));
        line("refused as another (422)", with_status(422));
        line("cancels asked for", of_kind(|ask| matches!(ask, Ask::Cancel { .. })));
        line("speed-ups asked for", of_kind(|ask| matches!(ask, Ask::SpeedUp { .. })));
        line("bare nonces given out", of_kind(|ask| matches!(ask, Ask::Allocate { .. })));
        line("confirmed", in_state("CONFIRMED"));
        line("failed", in_state("FAILED"));
        line("attempts", evidence.attempts.len());
        line("events", evidence.events.len());
        line("sends seen on the wire", evidence.wire.len());
        line("blocks", evidence.chain.len());
        line("reorganisations", evidence.reorgs.len());
        line("answers lost with a restore", lost_answers(evidence));
        line("attempts lost with a restore", coverage.sent_and_lost);
        let named = |named: fn(&LieTold) -> bool| {
            evidence.lies.iter().filter(|lie| named(lie)).count() as u64
        };
        lines.push(("lies of an endpoint", evidence.lies.len() as u64));
        lines.push(("  named by some doctor", named(|lie| lie.doctors > 0)));
        lines.push(("  named by some metrics", named(|lie| lie.metrics > 0)));
        lines.push(("  named by every doctor", named(|lie| lie.doctors == lie.nodes)));
        lines.push(("  named by all metrics", named(|lie| lie.metrics == lie.nodes)));
        lines.push(("  with somebody else named", named(|lie| lie.others > 0)));
        lines.push(("words of a person", *stage.diary.words.lock().unwrap()));
        lines.push(("takeovers (from /metrics)", stage.takeovers()));
        lines.push(("hand-overs (from /metrics)", stage.hand_overs()));
        lines.push(("lanes realigned (from /metrics)", stage.realigned()));
        lines.push(("fenced rejects (from /metrics)", evidence.fenced_rejects));
        lines.push(("starts of nodes", sum(|n| n.starts.load(Ordering::Acquire))));
        lines.push(("nodes that ended by themselves", sum(|n| n.exits.load(Ordering::Acquire))));
        let seen = sources.unwrap_or_default();
        lines.push(("looks: nodes from the registry", seen.registry));
        lines.push(("looks: from what it said last", seen.last_known));
        lines.push(("looks: from the database", seen.database));
        lines.push(("changes from look to look", seen.changes));
        let mut faults = stage.diary.faults.lock().unwrap().clone();
        faults.insert(Kind::ClockSkew, stage.skewed());
        let (restores, kinds) = (options.restores, options.kinds);
        Self { lines, faults, coverage: *coverage, sources, restores, kinds, took }
    }
}

fn is_unanswered(call: &&Call) -> bool {
    call.answer == Answer::Lost
}

/// Requests that were taken and are gone.
fn lost_answers(evidence: &Evidence) -> usize {
    let lost = evidence.calls.iter().filter(|call| {
        matches!(call.ask, Ask::Send { .. })
            && call.answer.is_success()
            && evidence.is_lost_call(call)
    });
    lost.filter_map(|call| call.answer.tx_id()).collect::<BTreeSet<_>>().len()
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, count) in &self.lines {
            writeln!(f, "{name:<34} {count:>8}")?;
        }
        writeln!(f, "faults: {}", self.faults.values().sum::<u64>())?;
        for (kind, count) in &self.faults {
            writeln!(f, "  {kind:<32} {count:>8}")?;
        }
        writeln!(f, "reached:")?;
        for (name, count) in self.coverage.counts() {
            writeln!(f, "  {name:<32} {count:>8}")?;
        }
        write!(f, "took {:.0} s", self.took.as_secs_f64())
    }
}
