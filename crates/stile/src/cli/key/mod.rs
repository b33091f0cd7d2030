//! `stile key`: who may call.
//!
//! | file | what is in it |
//! |---|---|
//! | `place` | the keys of a store, or those of a server |
//! | `create` | a new key |
//! | `rotate` | a new key in the place of an old one |
//! | `lifetime` | times as people say them |
//! | `show` | keys, for people and for programs |

mod create;
mod lifetime;
mod place;
mod rotate;
mod show;

use std::collections::HashMap;

use clap::{Args, Subcommand};
use serde_json::json;

use super::{Failure, table};

#[derive(Debug, Subcommand)]
pub(super) enum KeyCommand {
    /// Make a key, and print its token: the only time that it can be seen.
    Create(create::CreateArgs),
    /// Put a new key in the place of an old one, which stays good for a while.
    Rotate(rotate::RotateArgs),
    /// List the keys, and when each was last used.
    List(ListArgs),
    /// Revoke a key, for good. Servers refuse it within a second.
    Revoke(RevokeArgs),
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Also those that were revoked.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    place: place::PlaceArgs,
}

#[derive(Debug, Args)]
pub(super) struct RevokeArgs {
    /// The key's id or its name, as `stile key list` shows them. By name, those that it took the place
    /// of are revoked with it.
    #[arg(value_name = "ID|NAME")]
    key: String,
    #[command(flatten)]
    place: place::PlaceArgs,
}

pub(super) async fn key(
    command: KeyCommand,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    match command {
        KeyCommand::Create(args) => create::create(args, environment).await,
        KeyCommand::Rotate(args) => rotate::rotate(args, environment).await,
        KeyCommand::List(args) => list(&args, environment).await,
        KeyCommand::Revoke(args) => revoke(&args, environment).await,
    }
}

async fn list(args: &ListArgs, environment: &HashMap<String, String>) -> Result<(), Failure> {
    let keys = args.place.open(environment).await?.list(args.all).await?;
    if args.place.json() {
        return table::print(&table::json(&keys));
    }
    table::print(&show::listed(&keys))
}

async fn revoke(args: &RevokeArgs, environment: &HashMap<String, String>) -> Result<(), Failure> {
    let place = args.place.open(environment).await?;
    let key = place.find(&args.key).await?;
    if !key.was_revoked {
        place.revoke(&key.id).await?;
    }
    // Those that it took the place of have its name, and may be good for a while.
    for (id, until) in place.others(&key).await? {
        if args.key == key.name {
            place.revoke(&id).await?;
            eprintln!("revoked {} ({id}) too, which was rotated before", key.name);
        } else {
            eprintln!(
                "note: the key {id} of the same name is good until {until}; `stile key revoke {id}` revokes it"
            );
        }
    }
    if args.place.json() {
        return table::print(&table::json(&json!({ "keyId": key.id })));
    }
    let when = if key.was_revoked { "was revoked before:" } else { "revoked" };
    table::print(&format!("{when} {} ({}) in {}", key.name, key.id, place.name()))
}
