//! The configuration that it all runs with.

use std::collections::HashMap;
use std::fmt::Write;

use stile_devchain::accounts::{ALL, Account};

use super::super::Failure;
use super::place::Place;
use super::{CHAIN, SIGNERS};
use crate::config::Config;

/// The accounts that sign. Everybody knows their keys: they are for chains where nothing is worth
/// anything.
pub(super) fn signers() -> &'static [Account] {
    &ALL[..SIGNERS]
}

/// The configuration as far as logging goes, before anything else can be told.
pub(super) fn logging() -> Result<Config, Failure> {
    Ok(Config::parse("stile dev", LOGGING, std::iter::empty())?)
}

const LOGGING: &str = "[log]\nlevel = \"warn\"\n";

/// The configuration, as somebody could have written it.
pub(super) fn config(place: &Place, endpoint: &str) -> Result<Config, Failure> {
    let store = format!("sqlite://{}", place.store().display());
    // A chain of our own is asked often: it costs nothing, and whoever tries it is in a hurry.
    let poll = if place.chain().is_some() { "100ms" } else { "500ms" };
    let mut text = format!(
        "{LOGGING}[node]\nid = \"dev\"\n[store]\nurl = {store:?}\n\
         [confirmations]\nrequired = 1\npoll_interval = {poll:?}\n\
         [[chain]]\nid = {CHAIN}\nendpoints = [{endpoint:?}]\n",
    );
    for place in 0..SIGNERS {
        let _ = write!(text, "[[signer]]\nkey = \"env:{}\"\n", key_variable(place));
    }
    Ok(Config::parse("stile dev", &text, std::iter::empty())?)
}

/// The environment together with the signers' keys.
pub(super) fn with_keys(environment: &HashMap<String, String>) -> HashMap<String, String> {
    let keys = signers().iter().enumerate();
    let keys = keys.map(|(place, account)| (key_variable(place), account.key.to_string()));
    let mut environment = environment.clone();
    environment.extend(keys);
    environment
}

fn key_variable(place: usize) -> String {
    format!("STILE_DEV_KEY_{place}")
}
