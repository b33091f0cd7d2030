//! The commands of the binary. Data goes to standard output, logs and progress to standard error.

mod bench;
mod chain;
mod client;
mod config;
mod dev;
mod export_v1;
mod import_v1;
mod key;
mod logging;
mod migrate;
mod node;
mod on_store;
mod open_files;
mod reference;
mod rollout;
pub(crate) mod run;
mod serve;
mod signer;
mod table;
mod tx;
mod v1;

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use stile_engine::Fallen;
use stile_store::StoreError;

use crate::config::{Config, ConnectionUrl};
use crate::host;

/// An EVM transaction manager: hand it a transaction once, it lands exactly once.
#[derive(Debug, Parser)]
#[command(name = "stile", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Try it: a chain, a store and signers of its own, a first few transactions, and a server.
    Dev(dev::DevArgs),
    /// Run a node.
    Serve(ConfigFile),
    /// Transactions of a running server: send, get, list, watch, cancel, speed up.
    #[command(subcommand)]
    Tx(tx::TxCommand),
    /// Signers of a running server: list, show, and what to do when one does not move.
    #[command(subcommand)]
    Signer(signer::SignerCommand),
    /// Chains of a running server, and what their endpoints can do: show; and any node before it is configured: check.
    #[command(subcommand)]
    Chain(chain::ChainCommand),
    /// Nodes that a running server knows, Stile's own and others: list, show.
    #[command(subcommand)]
    Node(node::NodeCommand),
    /// API keys, of a server or in the store itself: create, list, rotate, revoke.
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Bring the database schema up to date, and say what was done.
    Migrate(ConfigFile),
    /// Move signers from V1 to Stile, one by one, with a report of what became of each nonce.
    ImportV1(import_v1::ImportArgs),
    /// The way back: let V1 go on with signers where Stile has left off.
    ExportV1(export_v1::ExportArgs),
    /// Which signers are Stile's, in the store itself: show, set.
    #[command(subcommand)]
    Rollout(rollout::RolloutCommand),
    /// Look at the configuration.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Measure, next to the raw limits of the same database in the same run.
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Print a reference page of the documentation.
    #[command(hide = true)]
    Reference(reference::ReferenceArgs),
}

/// Where the configuration is.
#[derive(Debug, Clone, Args)]
struct ConfigFile {
    /// The configuration file; without it, defaults and STILE__… variables.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigFile {
    fn load(&self, environment: &HashMap<String, String>) -> Result<Config, Failure> {
        let pairs = environment.iter().map(|(name, value)| (name.clone(), value.clone()));
        Ok(Config::load(self.config.as_deref(), pairs)?)
    }
}

/// Why a command failed, in words for the person at the terminal.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Says which database it was that could not be reached.
fn naming_the_store(url: &ConnectionUrl) -> impl Fn(Failure) -> Failure {
    move |failure| match failure.downcast_ref() {
        Some(StoreError::Unavailable(_)) => format!("{failure} (store.url is {url})").into(),
        _ => failure,
    }
}

/// How a server ends of which a task has panicked: an error in the program.
const PANICKED: u8 = 70;

/// Runs the command that the process was started with.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    host::keep_memory_private();
    // A benchmark starts servers of its own, some of them as other users.
    if !matches!(cli.command, Command::Bench(_)) {
        host::keep_files_private();
    }
    // Read once, here; everything else is given what it needs.
    let environment: HashMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let outcome = runtime.block_on(async {
        match cli.command {
            Command::Dev(args) => dev::dev(args, &environment).await,
            Command::Serve(file) => serve::serve(&file, &environment).await,
            Command::Tx(command) => tx::tx(command, &environment).await,
            Command::Signer(command) => signer::signer(command, &environment).await,
            Command::Chain(command) => chain::chain(command, &environment).await,
            Command::Node(command) => node::node(command, &environment).await,
            Command::Key(command) => key::key(command, &environment).await,
            Command::Migrate(file) => migrate::migrate(&file, &environment).await,
            Command::ImportV1(args) => import_v1::import_v1(args, &environment).await,
            Command::ExportV1(args) => export_v1::export_v1(args, &environment).await,
            Command::Rollout(command) => rollout::rollout(command, &environment).await,
            Command::Config(command) => config::config(command, &environment),
            Command::Bench(command) => bench::bench(command).await,
            Command::Reference(args) => reference::reference(&args),
        }
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            match failure.is::<Fallen>() {
                true => ExitCode::from(PANICKED),
                false => ExitCode::FAILURE,
            }
        }
    }
}
