//! What `import-v1` and `export-v1` share: V1's database, Stile's store, the chain, and who is who.

mod accounts;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use stile_chain::{BlockTag, ChainPool};
use stile_domain::{ChainId, Lane, LaneOwner, NodeId, Nonce, Percent};
use stile_store::v1::V1;
use stile_store::{OwnerChange, Store, StoreError};

pub(super) use accounts::{Account, Accounts, Choice};

use super::{ConfigFile, Failure, on_store};
use crate::config::Config;
use crate::wiring;

/// Signers moved at one time.
pub(super) const AT_ONCE: usize = 4;

/// Which signers, and where they are.
#[derive(Debug, Args)]
pub(super) struct V1Args {
    /// Only this signer, as V1 writes it or by its address; may be given more than once.
    #[arg(long = "signer", value_name = "SIGNER")]
    signers: Vec<String>,
    /// Only signers whose number, a hash of the address from 0 to 99, is below this.
    #[arg(long, value_name = "N", value_parser = percent)]
    percent: Option<Percent>,
    /// The chain that V1 works on: it does not know itself. May be left out while one is configured.
    #[arg(long)]
    chain_id: Option<u64>,
    /// A file with a line for each signer that V1 does not call by its address: `name = 0x…`.
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
    /// Only say what would be done. Writes nothing anywhere.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Print the report as JSON.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    file: ConfigFile,
}

pub(super) fn percent(text: &str) -> Result<Percent, String> {
    let number: u8 = text.parse().map_err(|_| "must be a whole number from 0 to 100".to_owned())?;
    Percent::new(number).map_err(|error| error.to_string())
}

/// Both sides, and the chain between them.
pub(super) struct Parties {
    pub(super) v1: V1,
    pub(super) store: Arc<dyn Store>,
    pub(super) pool: Arc<ChainPool>,
    /// As whom histories are written.
    pub(super) node: NodeId,
    pub(super) accounts: Accounts,
    pub(super) choice: Choice,
}

impl Parties {
    pub(super) async fn meet(
        url: &str,
        args: &V1Args,
        command: &str,
        environment: &HashMap<String, String>,
    ) -> Result<Self, Failure> {
        let config = args.file.load(environment)?;
        let chain = chain_of(&config, args.chain_id)?;
        let chains = wiring::chains_of(&config)?;
        let pool = chains.get(chain).cloned().ok_or_else(|| {
            format!(
                "chain {chain} has no endpoints: give them in [[chain]], nothing is moved unseen"
            )
        })?;
        let v1 = V1::open(&resolved(url, environment)?, AT_ONCE + 1).await?;
        let store = on_store::opened(&config).await?;
        let accounts = Accounts::of(v1.signers().await?, args.map.as_deref(), chain)?;
        let choice = Choice::of(&args.signers, args.percent, &accounts)?;
        let node = NodeId(command.to_owned());
        Ok(Self { v1, store, pool, node, accounts, choice })
    }

    /// The account's count by the chain.
    pub(super) async fn latest(&self, lane: Lane) -> Result<Nonce, Failure> {
        Ok(self.pool.transaction_count(lane.signer, BlockTag::Latest).await?)
    }

    /// Puts lanes on the list; one that stands as wanted already counts as done.
    pub(super) async fn set_owner(
        &self,
        lanes: &[Lane],
        from: &[Option<LaneOwner>],
        to: LaneOwner,
    ) -> Result<Vec<OwnerChange>, StoreError> {
        let changes =
            persistently(async || self.store.set_owner(&self.node, lanes, from, to).await).await?;
        let done = |change| match change {
            OwnerChange::Was(Some(owner)) if owner == to => OwnerChange::Done,
            change => change,
        };
        Ok(changes.into_iter().map(done).collect())
    }
}

/// The chain asked for, or the only one there is.
fn chain_of(config: &Config, asked: Option<u64>) -> Result<ChainId, Failure> {
    let configured: Vec<u64> = config.chains.iter().map(|chain| chain.id).collect();
    let id = match (asked, &configured[..]) {
        (Some(id), _) if configured.contains(&id) => id,
        (Some(id), _) => return Err(format!("there is no [[chain]] with id = {id}").into()),
        (None, [only]) => *only,
        (None, []) => return Err("no [[chain]] is configured: give one, with its endpoints".into()),
        (None, _) => {
            return Err(
                "more than one chain is configured: say with --chain-id which V1 works on".into()
            );
        }
    };
    Ok(ChainId::new(id)?)
}

/// A URL, or where it is kept: `env:NAME` or `file:PATH`, since it may have a password in it.
fn resolved(url: &str, environment: &HashMap<String, String>) -> Result<String, Failure> {
    if let Some(name) = url.strip_prefix("env:") {
        let found = environment.get(name).cloned();
        return found.ok_or_else(|| format!("the environment variable {name} is not set").into());
    }
    if let Some(path) = url.strip_prefix("file:") {
        let read = std::fs::read_to_string(path);
        return Ok(read.map_err(|e| format!("{path} cannot be read: {e}"))?.trim().to_owned());
    }
    Ok(url.to_owned())
}

/// Tries again what may pass, such as a lock that somebody else had. For what may be done twice.
pub(super) async fn persistently<T>(
    work: impl AsyncFn() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    const TRIES: u32 = 5;
    for tried in 1_u32.. {
        match work().await {
            Err(error) if error.retry_after().is_some() && tried < TRIES => {
                tokio::time::sleep(Duration::from_millis(200) * tried).await;
            }
            done => return done,
        }
    }
    Err(StoreError::Internal("it was never tried".into()))
}
