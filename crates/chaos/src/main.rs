//! `chaos`: clusters under faults from seeds. Figures on standard output, the rest on standard
//! error; 1 if something was violated, or if the runs together did not reach what they are for.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use chaos::run::{self, Options, Outcome};
use chaos::schedule::{Kind, Kinds};
use chaos::{Rule, Summary};
use clap::{Parser, ValueEnum};
use futures::FutureExt;

/// Runs a cluster under faults and checks its history.
#[derive(Debug, Parser)]
struct Arguments {
    /// How long faults come in each run.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Where all chance comes from: 1 unless given. Given several times, runs follow each other.
    #[arg(long)]
    seed: Vec<u64>,
    /// From the first to the last of these seeds, such as 1..10.
    #[arg(long, value_parser = range)]
    seeds: Option<(u64, u64)>,
    /// The binary to run; of the release, or else of the debug build, unless given.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// How many nodes there are.
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// How many clients hand over transfers.
    #[arg(long, default_value_t = 4)]
    senders: usize,
    /// Whether the nodes share a Redis; those of odd seeds do unless this says otherwise.
    #[arg(long, value_enum)]
    redis: Option<Choice>,
    /// Whether commits get lost that were answered, with a backup or a standby that lags; those of every
    /// third seed do unless this says otherwise.
    #[arg(long, value_enum)]
    restores: Option<Choice>,
    /// Only these kinds of faults come, by their names; all unless given. Given several times, or with
    /// commas in between.
    #[arg(long, value_parser = kind, value_delimiter = ',')]
    faults: Vec<Kind>,
    /// Keeps the nodes' logs in this directory, in one of its own for each seed.
    #[arg(long)]
    logs: Option<PathBuf>,
    /// Has the nodes run with this planted bug; their binary must be built with it.
    #[arg(long)]
    planted: Option<String>,
    /// Succeeds only if this rule is found violated, such as C4: for planted bugs.
    #[arg(long)]
    expect: Option<String>,
    /// How many stories of violations are told.
    #[arg(long, default_value_t = 5)]
    stories: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Choice {
    Yes,
    No,
}

impl Arguments {
    fn all_seeds(&self) -> Vec<u64> {
        let mut seeds = self.seed.clone();
        seeds.extend(self.seeds.into_iter().flat_map(|(first, last)| first..=last));
        if seeds.is_empty() { vec![1] } else { seeds }
    }

    fn options(&self, seed: u64) -> Options {
        let binary = self.binary.clone().unwrap_or_else(built);
        let length = Duration::from_secs_f64(self.minutes * 60.0);
        let mut options = Options::new(binary, seed, length);
        options.nodes = self.nodes;
        options.senders = self.senders;
        options.redis = self.redis.map_or(options.redis, |choice| choice == Choice::Yes);
        options.restores = self.restores.map_or(options.restores, |choice| choice == Choice::Yes);
        if !self.faults.is_empty() {
            options.kinds = Kinds::of(&self.faults);
        }
        options.logs = self.logs.as_ref().map(|logs| logs.join(format!("seed-{seed}")));
        let planted = self.planted.iter().map(|bug| ("STILE_PLANTED_BUG".to_owned(), bug.clone()));
        options.environment.extend(planted);
        options
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seeds = arguments.all_seeds();
    let mut summary = Summary::default();
    let mut found: Vec<Rule> = Vec::new();
    let mut broken: Vec<u64> = Vec::new();
    for (place, seed) in seeds.iter().enumerate() {
        let options = arguments.options(*seed);
        if let Some(logs) = &options.logs {
            std::fs::create_dir_all(logs).expect("make the directory for logs");
        }
        // A server that does not come up ends this run, and not those that follow.
        let Ok(outcome) = AssertUnwindSafe(run::run(&options)).catch_unwind().await else {
            println!("seed {seed}: the run did not come to its end");
            broken.push(*seed);
            continue;
        };
        tell(*seed, &outcome, arguments.stories);
        eprintln!("seed {seed}: {} of {} runs are over", place + 1, seeds.len());
        found.extend(outcome.violations.iter().map(|violation| violation.rule));
        summary.add(*seed, outcome.figures, outcome.violations.len());
    }
    if seeds.len() > 1 {
        println!("\n{summary}");
    }
    if let Some(rule) = &arguments.expect {
        let is_found = found.iter().any(|found| format!("{found:?}") == *rule);
        let words = if is_found { "is violated, as" } else { "is not violated, and" };
        println!("{rule} {words} it should be");
        return if is_found { ExitCode::SUCCESS } else { ExitCode::from(1) };
    }
    let missing = summary.missing();
    if !missing.is_empty() {
        println!("not reached, so this does not count: {}", missing.join(", "));
    }
    if !broken.is_empty() {
        println!("runs that did not come to their end, by seed: {broken:?}");
    }
    if missing.is_empty() && broken.is_empty() && summary.violations() == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    }
}

/// Prints what came of one run.
fn tell(seed: u64, outcome: &Outcome, stories: usize) {
    println!("seed {seed}\n{}", outcome.figures);
    println!("violations: {}", outcome.violations.len());
    for violation in &outcome.violations {
        println!("  {violation}");
    }
    if !outcome.violations.is_empty() {
        println!("\nseed {seed}\n{}", outcome.stories(stories));
    }
}

/// Reads the name of a kind of fault.
fn kind(name: &str) -> Result<Kind, String> {
    let names = Kind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
    Kind::named(name.trim()).ok_or_else(|| format!("there are: {names}"))
}

/// Reads `first..last`.
fn range(text: &str) -> Result<(u64, u64), String> {
    let ends = text.split_once("..").map(|(first, last)| (first, last.trim_start_matches('=')));
    let read = |text: &str| text.trim().parse::<u64>().ok();
    let ends = ends.and_then(|(first, last)| Some((read(first)?, read(last)?)));
    ends.filter(|(first, last)| first <= last)
        .ok_or_else(|| "write the first and the last seed, such as 1..10".to_owned())
}

/// The binary that somebody has built.
fn built() -> PathBuf {
    let target = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target"));
    let release = target.join("release/stile");
    if release.is_file() { release } else { target.join("debug/stile") }
}
