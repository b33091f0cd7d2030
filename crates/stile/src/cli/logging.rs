//! Logs, on standard error.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::Failure;
use crate::config::{Log, LogFormat, LogLevel};

pub(super) fn start(log: &Log) -> Result<(), Failure> {
    let level = match log.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    // Stile's own words at the level asked for; its libraries only when something is wrong.
    let filter = EnvFilter::builder().parse(format!(
        "warn,stile={level},stile_chain={level},stile_engine={level},stile_server={level},\
         stile_store={level}"
    ))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()));
    match log.format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    }
}
