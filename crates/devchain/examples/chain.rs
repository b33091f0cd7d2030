//! Runs a development chain until it is interrupted: `cargo run -p stile-devchain --example chain
//! -- 127.0.0.1:8545 [STATE FILE]`, with a block every second.

use std::time::Duration;

use stile_devchain::{Blocks, DevChain, Options};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let listen = arguments.next().unwrap_or_else(|| "127.0.0.1:8545".to_owned()).parse()?;
    let state = arguments.next().map(Into::into);
    let blocks = Blocks::Every(Duration::from_secs(1));
    let chain = DevChain::start(Options { listen, state, blocks, ..Options::default() }).await?;
    println!("{}", chain.url());
    tokio::signal::ctrl_c().await?;
    chain.stop().await;
    Ok(())
}
