//! `stile config`.

use std::collections::HashMap;

use clap::Subcommand;

use super::{ConfigFile, Failure};
use crate::wiring;

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Say whether the configuration can be run; name every problem with its line.
    Check(ConfigFile),
    /// Print the configuration in effect, defaults and environment included, secrets masked.
    Show(ConfigFile),
    /// Print the reference page of all keys.
    Reference,
}

pub(super) fn config(
    command: ConfigCommand,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    match command {
        ConfigCommand::Check(file) => {
            let config = file.load(environment)?;
            let parts = wiring::parts(&config, environment)?;
            println!("ok: node {}, store {}", parts.settings.node, config.store.url);
        }
        ConfigCommand::Show(file) => print!("{}", file.load(environment)?.to_toml()?),
        ConfigCommand::Reference => print!("{}", crate::config::reference_markdown()),
    }
    Ok(())
}
