//! `stile key create`.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use clap::Args;
use stile_domain::{Address, KeyId, KeyName, Operation, Scope, SignerScope, Token, parse_address};
use stile_store::NewKey;

use super::{lifetime, show};
use crate::cli::on_store::on_store;
use crate::cli::{ConfigFile, Failure, table};

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
    /// How long it is good for, such as 12h or 90d; for ever if left out.
    #[arg(long, value_name = "TIME", value_parser = lifetime::parse)]
    expires: Option<Duration>,
    /// Print the key and its token as JSON instead of the bare token.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    file: ConfigFile,
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
}

/// Prints the token alone on standard output, for scripts, and the rest on standard error.
pub(super) async fn create(
    args: CreateArgs,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    let scope = args.scope()?;
    let token = Token::fresh()?;
    let new = NewKey {
        id: KeyId::fresh(),
        name: args.name.clone(),
        hash: token.hash(),
        hint: token.hint().to_owned(),
        scope,
        lifetime: args.expires,
    };
    let made =
        on_store(&args.file, environment, async |store| store.create_key(&new).await).await?;
    let Some(key) = made else {
        return Err(format!(
            "there is a key named {} already\nhint: revoke it with `stile key revoke {}`, or choose another name",
            new.name, new.name
        )
        .into());
    };
    if args.json {
        let mut shown = show::json(&key);
        shown["token"] = token.reveal().into();
        return table::print(&table::json(&shown));
    }
    eprintln!("{}", show::details(&key));
    eprintln!(
        "This is the only time the token is shown. Send it as Authorization: Bearer <token>,"
    );
    eprintln!(
        "or set STILE_API_KEY for `stile tx` and `stile signer`. From now on every call needs a key."
    );
    table::print(token.reveal())
}
