//! `stile key rotate`.

use std::collections::HashMap;
use std::time::Duration;

use clap::Args;

use super::place::{PlaceArgs, Turn};
use super::{lifetime, show};
use crate::cli::Failure;

#[derive(Debug, Args)]
pub(in crate::cli) struct RotateArgs {
    /// The key's id or its name, as `stile key list` shows them.
    #[arg(value_name = "ID|NAME")]
    key: String,
    /// How long the old key stays good: 1s for one that leaked.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = lifetime::parse)]
    overlap: Duration,
    /// How long the new key is good for, such as 90d; as long as the old one was to be if left out.
    #[arg(long, value_name = "TIME", value_parser = lifetime::parse)]
    expires: Option<Duration>,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Prints the new token alone on standard output, for scripts, and the rest on standard error.
pub(super) async fn rotate(
    args: RotateArgs,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    let place = args.place.open(environment).await?;
    let old = place.find(&args.key).await?;
    let turn = Turn { overlap: args.overlap, lifetime: args.expires };
    let made = place.rotate(&old.id, &turn).await?;
    let (place, overlap) = (place.name(), lifetime::shown(args.overlap));
    eprintln!("rotated in {place}; the old key {} ends within {overlap}", old.id);
    show::made(&made, args.place.json())
}
