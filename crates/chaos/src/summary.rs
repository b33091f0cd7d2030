//! Several runs side by side: what came of each, and what all of them have reached together.

use std::fmt;

use crate::check::Coverage;
use crate::run::Figures;
use crate::schedule::{Kind, Kinds};

/// What runs with Redis are for: nodes that learn of each other now from it, now from the database.
const SOURCE_CHANGES: &str = "changes of whom nodes learn from";

/// What came of runs, one after the other.
#[derive(Debug, Default)]
pub struct Summary {
    runs: Vec<Run>,
}

#[derive(Debug)]
struct Run {
    seed: u64,
    figures: Figures,
    violations: u64,
}

impl Summary {
    /// Adds a run.
    pub fn add(&mut self, seed: u64, figures: Figures, violations: usize) {
        self.runs.push(Run { seed, figures, violations: violations as u64 });
    }

    /// How many violations there are in all runs.
    pub fn violations(&self) -> u64 {
        self.runs.iter().map(|run| run.violations).sum()
    }

    /// What no run has reached: kinds of faults, and what runs are for.
    pub fn missing(&self) -> Vec<&'static str> {
        let came = |kind: Kind| self.runs.iter().any(|run| count(&run.figures, kind) > 0);
        let sources: Vec<_> = self.runs.iter().filter_map(|run| run.figures.sources).collect();
        // What hits Redis is asked for only where there was one, what is lost only where something was,
        // and nothing that was left out on purpose.
        let wanted = |kind: Kind| {
            self.runs.iter().any(|run| {
                let figures = &run.figures;
                figures.kinds.has(kind)
                    && kind.can_come(figures.sources.is_some(), figures.restores)
            })
        };
        let kinds = Kind::ALL.iter().filter(|kind| wanted(**kind) && !came(**kind));
        let kinds = kinds.map(|kind| kind.name());
        let unmoved = !sources.is_empty() && sources.iter().all(|sources| sources.changes == 0);
        let unmoved = unmoved.then_some(SOURCE_CHANGES);
        // What runs are for comes of all kinds together.
        if self.runs.iter().all(|run| run.figures.kinds != Kinds::ALL) {
            return kinds.collect();
        }
        let coverage = self.runs.iter().map(|run| run.figures.coverage);
        let coverage = coverage.fold(Coverage::default(), |all, one| all.and(&one));
        kinds.chain(unmoved).chain(coverage.missing()).collect()
    }

    /// A row: its name, what it has for each run, and the sum.
    fn row(&self, f: &mut fmt::Formatter<'_>, name: &str, of: impl Fn(&Run) -> u64) -> fmt::Result {
        write!(f, "{name:<34}")?;
        for run in &self.runs {
            write!(f, " {:>6}", of(run))?;
        }
        writeln!(f, " {:>8}", self.runs.iter().map(of).sum::<u64>())
    }
}

fn count(figures: &Figures, kind: Kind) -> u64 {
    figures.faults.get(&kind).copied().unwrap_or_default()
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.runs.first() else { return Ok(()) };
        write!(f, "{:<34}", "seed")?;
        for run in &self.runs {
            write!(f, " {:>6}", run.seed)?;
        }
        writeln!(f, " {:>8}", "all")?;
        for (place, (name, _)) in first.figures.lines.iter().enumerate() {
            self.row(f, name, |run| run.figures.lines.get(place).map_or(0, |(_, count)| *count))?;
        }
        self.row(f, "faults", |run| run.figures.faults.values().sum())?;
        for kind in Kind::ALL {
            self.row(f, &format!("  {kind}"), |run| count(&run.figures, *kind))?;
        }
        writeln!(f, "reached")?;
        for (place, (name, _)) in Coverage::default().counts().iter().enumerate() {
            let reached = |run: &Run| run.figures.coverage.counts()[place].1 as u64;
            self.row(f, &format!("  {name}"), reached)?;
        }
        self.row(f, "seconds", |run| run.figures.took.as_secs())?;
        self.row(f, "violations", |run| run.violations)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::run::Sources;

    fn figures(faults: &[Kind], gaps_filled: usize) -> Figures {
        Figures {
            lines: vec![("requests", 5)],
            faults: faults.iter().map(|kind| (*kind, 2)).collect::<BTreeMap<_, _>>(),
            coverage: Coverage {
                taken_over: 1,
                fenced_rejects: 1,
                gaps_filled,
                cancels_won: 1,
                cancels_lost: 1,
                rolled_back: 1,
                sent_and_lost: 1,
                restored: false,
            },
            restores: false,
            kinds: Kinds::ALL,
            sources: Some(Sources { changes: 1, ..Sources::default() }),
            took: Duration::from_secs(9),
        }
    }

    #[test]
    fn what_one_run_lacks_another_may_have() {
        let mut summary = Summary::default();
        assert!(!Kind::ALL[0].needs_restores());
        summary.add(1, figures(&Kind::ALL[1..], 0), 0);
        assert_eq!(summary.missing(), [Kind::ALL[0].name(), "gaps filled"]);
        summary.add(2, figures(&Kind::ALL[..1], 1), 3);
        assert_eq!((summary.missing(), summary.violations()), (Vec::new(), 3));
        let table = summary.to_string();
        assert!(table.lines().any(|line| line.starts_with("requests") && line.ends_with("10")));
    }

    #[test]
    fn what_hits_redis_is_asked_for_only_where_there_was_one() {
        let others: Vec<Kind> =
            Kind::ALL.iter().copied().filter(|kind| kind.can_come(false, false)).collect();
        let mut summary = Summary::default();
        summary.add(2, Figures { sources: None, ..figures(&others, 1) }, 0);
        assert_eq!(summary.missing(), [] as [&str; 0]);
        summary.add(1, Figures { sources: Some(Sources::default()), ..figures(&others, 1) }, 0);
        let faults = ["kill redis", "freeze redis", "wipe redis", "cut redis", "hostile redis"];
        assert_eq!(summary.missing(), [&faults[..], &[SOURCE_CHANGES]].concat());
    }

    #[test]
    fn what_loses_commits_is_asked_for_only_where_they_may_get_lost() {
        let others: Vec<Kind> =
            Kind::ALL.iter().copied().filter(|kind| kind.can_come(true, false)).collect();
        let mut summary = Summary::default();
        summary.add(1, figures(&others, 1), 0);
        assert_eq!(summary.missing(), [] as [&str; 0]);
        summary.add(3, Figures { restores: true, ..figures(&others, 1) }, 0);
        assert_eq!(summary.missing(), [Kind::Restore.name(), Kind::PromoteLagging.name()]);
    }

    #[test]
    fn what_was_left_out_is_not_missed() {
        let kinds = Kinds::of(&[Kind::Kill]);
        let mut summary = Summary::default();
        summary.add(1, Figures { kinds, ..figures(&[Kind::Kill], 0) }, 0);
        assert_eq!(summary.missing(), [] as [&str; 0]);
    }
}
