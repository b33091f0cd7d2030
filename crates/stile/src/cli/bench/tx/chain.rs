//! The chain that transactions go to, and its raw limit: signed beforehand, sent with nothing
//! around.

use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde_json::{Value, json};
use stile_chain::{LocalSigner, TxSigner, UnsignedTx};
use stile_devchain::DevChain;
use stile_domain::{ChainId, Fees, U256, parse_address};
use testkit::{Anvil, AnvilOptions};

use crate::cli::Failure;
use crate::cli::bench::http::Connection;
use crate::cli::bench::nodes::{GAS_LIMIT, RECEIVER};

pub(super) use crate::cli::bench::nodes::CHAIN_ID as ID;

/// Connections that signed transactions are sent over.
const CONNECTIONS: usize = 32;

/// How often the chain is asked whether all is mined.
const LOOK: Duration = Duration::from_millis(20);

/// How long transactions may take to be mined.
const PATIENCE: Duration = Duration::from_secs(120);

/// When blocks come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blocks {
    EverySecond,
    Never,
}

/// Which chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// The one that comes with Stile.
    Dev,
    /// anvil, where it is installed.
    Anvil,
}

/// A chain of our own, gone when it is dropped.
pub(super) enum Chain {
    Dev(DevChain),
    Anvil(Anvil),
}

impl Chain {
    pub(super) async fn start(kind: Kind, blocks: Blocks) -> Result<Self, Failure> {
        match kind {
            Kind::Dev => {
                let blocks = match blocks {
                    Blocks::EverySecond => stile_devchain::Blocks::Every(Duration::from_secs(1)),
                    Blocks::Never => stile_devchain::Blocks::OnDemand,
                };
                let options = stile_devchain::Options {
                    chain_id: ID,
                    blocks,
                    gas_limit: GAS_LIMIT,
                    ..stile_devchain::Options::default()
                };
                Ok(Self::Dev(DevChain::start(options).await?))
            }
            Kind::Anvil => {
                let anvil = Anvil::start(AnvilOptions {
                    block_time_seconds: (blocks == Blocks::EverySecond).then_some(1),
                    no_mining: blocks == Blocks::Never,
                    chain_id: ID,
                    arguments: vec![format!("--gas-limit={GAS_LIMIT}")],
                    ..AnvilOptions::default()
                });
                Ok(Self::Anvil(anvil.await))
            }
        }
    }

    pub(super) fn url(&self) -> String {
        match self {
            Self::Dev(chain) => chain.url(),
            Self::Anvil(anvil) => anvil.url().to_owned(),
        }
    }

    /// Makes the chain believe that an account has sent so many.
    pub(super) async fn set_nonce(&self, account: &str, nonce: u64) -> Result<(), Failure> {
        let method = match self {
            Self::Dev(_) => "dev_setNonce",
            Self::Anvil(_) => "anvil_setNonce",
        };
        let params = json!([account, format!("{nonce:#x}")]);
        call(&mut self.connect().await?, method, params).await.map(|_| ())
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        let url = self.url();
        Connection::open(url.trim_start_matches("http://").trim_end_matches('/').parse()?).await
    }

    /// Waits until the accounts' nonces add up to so many: all of them are mined.
    pub(super) async fn mined(&self, accounts: &[String], count: u64) -> Result<(), Failure> {
        let mut connection = self.connect().await?;
        let until = Instant::now() + PATIENCE;
        loop {
            let mut sum = 0;
            for account in accounts {
                let answer =
                    call(&mut connection, "eth_getTransactionCount", json!([account, "latest"]));
                let text = answer.await?.as_str().unwrap_or_default().to_owned();
                sum += u64::from_str_radix(text.trim_start_matches("0x"), 16)?;
            }
            if sum >= count {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(format!("only {sum} of {count} were mined within {PATIENCE:?}").into());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Sends so many transactions of these accounts, signed beforehand: how long until the chain
    /// has taken all, and until the last is mined.
    pub(super) async fn raw(&self, accounts: usize, count: usize) -> Result<Raw, Failure> {
        let mut parts: Vec<Vec<String>> = vec![Vec::new(); CONNECTIONS];
        for number in 0..count {
            parts[number % CONNECTIONS].push(signed(number % accounts, number / accounts)?);
        }
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(self.connect().await?);
        }
        let begun = Instant::now();
        let sending = connections.into_iter().zip(parts).map(async |(mut connection, part)| {
            for raw in part {
                call(&mut connection, "eth_sendRawTransaction", json!([raw])).await?;
            }
            Ok::<_, Failure>(())
        });
        futures::future::try_join_all(sending).await?;
        let taken = begun.elapsed();
        let accounts = (0..accounts).map(account).collect::<Result<Vec<_>, _>>()?;
        self.mined(&accounts, count as u64).await?;
        Ok(Raw { taken, mined: begun.elapsed() })
    }
}

/// What the chain needed by itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raw {
    pub(super) taken: Duration,
    pub(super) mined: Duration,
}

/// The key of an account that the chain funds.
pub(super) fn key(account: usize) -> &'static str {
    Anvil::key(account)
}

/// The address of an account that the chain funds.
pub(super) fn account(account: usize) -> Result<String, Failure> {
    Ok(LocalSigner::from_key(key(account))?.address().to_string())
}

fn signed(account: usize, nonce: usize) -> Result<String, Failure> {
    let signed = LocalSigner::from_key(key(account))?.sign_now(&UnsignedTx {
        chain: ChainId::new(ID)?,
        nonce: nonce as u64,
        to: Some(parse_address(RECEIVER)?),
        value: U256::from(1),
        data: Default::default(),
        gas_limit: 21_000,
        fees: Fees::Market {
            max_fee_per_gas: 10_000_000_000,
            max_priority_fee_per_gas: 1_000_000_000,
        },
    })?;
    Ok(signed.raw.to_string())
}

async fn call(connection: &mut Connection, method: &str, params: Value) -> Result<Value, Failure> {
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let (_, body) = connection.post("/", request.to_string()).await?;
    let mut answer: Value = serde_json::from_slice(&body)?;
    match answer.get("error") {
        Some(error) => Err(format!("{method}: {error}").into()),
        None => Ok(answer["result"].take()),
    }
}
