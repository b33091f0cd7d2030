//! `stile key`: who may call.
//!
//! These commands work on the store itself, so the first key can be made before any server runs,
//! and keys can be made and revoked while one does.

mod create;
mod lifetime;
mod show;

use std::collections::HashMap;

use clap::{Args, Subcommand};
use stile_domain::KeyId;
use stile_store::KeyRef;

use super::on_store::on_store;
use super::{ConfigFile, Failure, table};

#[derive(Debug, Subcommand)]
pub(super) enum KeyCommand {
    /// Make a key, and print its token: the only time that it can be seen.
    Create(create::CreateArgs),
    /// List the keys.
    List(ListArgs),
    /// Revoke a key, for good. Servers refuse it within a second.
    Revoke(RevokeArgs),
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Also those that were revoked.
    #[arg(long)]
    all: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    file: ConfigFile,
}

#[derive(Debug, Args)]
pub(super) struct RevokeArgs {
    /// The key's id or its name, as `stile key list` shows them.
    #[arg(value_name = "ID|NAME")]
    key: String,
    #[command(flatten)]
    file: ConfigFile,
}

pub(super) async fn key(
    command: KeyCommand,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    match command {
        KeyCommand::Create(args) => create::create(args, environment).await,
        KeyCommand::List(args) => list(&args, environment).await,
        KeyCommand::Revoke(args) => revoke(&args, environment).await,
    }
}

async fn list(args: &ListArgs, environment: &HashMap<String, String>) -> Result<(), Failure> {
    let keys = on_store(&args.file, environment, async |store| store.keys(args.all).await).await?;
    if args.json {
        return table::print(&table::json(&show::list_json(&keys)));
    }
    table::print(&show::listed(&keys))
}

async fn revoke(args: &RevokeArgs, environment: &HashMap<String, String>) -> Result<(), Failure> {
    let key = reference(&args.key)?;
    let before = on_store(&args.file, environment, async |store| {
        let before = store.keys(true).await?;
        Ok(store.revoke_key(&key).await?.map(|revoked| {
            let fresh = before.iter().any(|old| old.id == revoked.id && old.revoked_at.is_none());
            (revoked, fresh)
        }))
    })
    .await?;
    let Some((revoked, fresh)) = before else {
        let hint = "hint: `stile key list --all` shows those there are, and those there were";
        return Err(format!("there is no key {}\n{hint}", args.key).into());
    };
    let when = if fresh { "revoked" } else { "was revoked before:" };
    table::print(&format!("{when} {} ({})", revoked.name, revoked.id))
}

/// A key by what somebody typed.
fn reference(text: &str) -> Result<KeyRef, Failure> {
    if let Ok(id) = text.parse() {
        return Ok(KeyRef::Id(KeyId(id)));
    }
    let name = text.parse().map_err(|error| format!("{text:?} is no id, and a name {error}"))?;
    Ok(KeyRef::Name(name))
}
