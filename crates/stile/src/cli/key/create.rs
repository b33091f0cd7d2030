//! `stile key create`.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use clap::Args;
use stile_domain::{Address, KeyName, Networks, Operation, Scope, SignerScope, parse_address};

use super::place::{PlaceArgs, Wanted};
use super::{lifetime, show};
use crate::cli::Failure;

#[derive(Debug, Args)]
pub(in crate::cli) struct CreateArgs {
    /// What people call it: letters, digits, dots, dashes and underscores.
    #[arg(long)]
    name: KeyName,
    /// What it may do: read, send, operate, admin, with commas between them.
    #[arg(
        long, value_name = "OPERATIONS", value_delimiter = ',', default_value = "read,send",
        value_parser = operation
    )]
    operations: Vec<Operation>,
    /// An account that it may use; may be given more than once. `all` for every signer, also those
    /// that are added later: that is never assumed. A key for admin is always for all.
    #[arg(long = "signer", value_name = "ADDRESS|all", value_parser = signer)]
    signers: Vec<Signer>,
    /// A network that it may be used from, such as 10.0.0.0/8 or a single address; may be given more
    /// than once. Anywhere if left out.
    #[arg(long = "from", value_name = "NETWORK")]
    networks: Vec<String>,
    /// How long it is good for, such as 90d, which is a good choice; for ever if left out.
    #[arg(long, value_name = "TIME", value_parser = lifetime::parse)]
    expires: Option<Duration>,
    #[command(flatten)]
    place: PlaceArgs,
}

/// One `--signer`.
#[derive(Debug, Clone, Copy)]
enum Signer {
    All,
    Only(Address),
}

fn operation(text: &str) -> Result<Operation, &'static str> {
    text.parse().map_err(|_| "must be read, send, operate or admin")
}

fn signer(text: &str) -> Result<Signer, String> {
    if text == "all" {
        return Ok(Signer::All);
    }
    parse_address(text).map(Signer::Only).map_err(|error| format!("{error}, or be all"))
}

impl CreateArgs {
    fn scope(&self) -> Result<Scope, Failure> {
        let only: BTreeSet<Address> = self
            .signers
            .iter()
            .filter_map(|signer| match signer {
                Signer::All => None,
                Signer::Only(address) => Some(*address),
            })
            .collect();
        let all = self.signers.iter().any(|signer| matches!(signer, Signer::All));
        let signers = match (all, only.is_empty()) {
            (true, false) => return Err("--signer: give addresses or all, not both".into()),
            (true, true) => SignerScope::All,
            (false, false) => SignerScope::Only(only),
            (false, true) if self.operations.contains(&Operation::Admin) => SignerScope::All,
            (false, true) => {
                let words =
                    "say whose transactions the key is for: --signer ADDRESS, or --signer all";
                return Err(words.into());
            }
        };
        Scope::new(self.operations.iter().copied(), signers)
            .map_err(|error| format!("--operations and --signer: {error}").into())
    }

    fn networks(&self) -> Result<Option<Networks>, Failure> {
        if self.networks.is_empty() {
            return Ok(None);
        }
        Networks::new(&self.networks).map(Some).map_err(|error| format!("--from {error}").into())
    }
}

/// Prints the token alone on standard output, for scripts, and the rest on standard error.
pub(super) async fn create(
    args: CreateArgs,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    let wanted = Wanted {
        name: args.name.clone(),
        scope: args.scope()?,
        networks: args.networks()?,
        lifetime: args.expires,
    };
    let place = args.place.open(environment).await?;
    let made = place.create(wanted).await?;
    eprintln!("made in {}", place.name());
    show::made(&made, args.place.json())
}
