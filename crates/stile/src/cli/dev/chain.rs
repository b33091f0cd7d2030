//! The development chain, and where it listens.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use stile_devchain::{Blocks, DevChain, DevChainError, Options};

use super::super::Failure;
use super::{CHAIN, DevArgs};

/// Where clients expect a development chain.
const USUAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8545);

/// How often there is a block.
const BLOCK_TIME: Duration = Duration::from_secs(1);

/// Starts the chain that this file keeps: where it was asked for, else at the usual place, else
/// at any free port.
pub(super) async fn start(file: &Path, asked: Option<SocketAddr>) -> Result<DevChain, Failure> {
    let options = Options {
        chain_id: CHAIN,
        listen: asked.unwrap_or(USUAL),
        blocks: Blocks::Every(BLOCK_TIME),
        state: Some(file.to_owned()),
        ..Options::default()
    };
    let any_port = SocketAddr::new(USUAL.ip(), 0);
    match DevChain::start(options.clone()).await {
        Err(DevChainError::Listen { source, .. })
            if asked.is_none() && source.kind() == ErrorKind::AddrInUse =>
        {
            let started = DevChain::start(Options { listen: any_port, ..options }).await;
            started.map_err(with_hint)
        }
        started => started.map_err(with_hint),
    }
}

fn with_hint(error: DevChainError) -> Failure {
    match error {
        DevChainError::InUse(_) => {
            format!("{error}\nhint: another stile dev runs on it; give this one its own --data")
                .into()
        }
        DevChainError::OtherChain { .. } | DevChainError::Damaged { .. } => {
            format!("{error}\nhint: start over with --fresh").into()
        }
        error => error.into(),
    }
}

/// What there is to say about the chain.
pub(super) fn remark(args: &DevArgs, chain: Option<&DevChain>) -> String {
    match chain {
        None => "(as given)".to_owned(),
        Some(chain) if args.chain_listen.is_none() && chain.address() != USUAL => {
            format!("(a block every second; {USUAL} is taken)")
        }
        Some(_) => "(a block every second)".to_owned(),
    }
}
