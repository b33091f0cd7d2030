//! Fills a store with finished transactions: `seed <store url> <signer> <count> [chain id]`.

use std::time::Instant;

use stile_domain::{ChainId, Lane, parse_address};
use stile_store::{OpenOptions, open, raw};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, signer, count, chain @ ..] = &arguments[..] else {
        return Err("seed <store url> <signer> <count> [chain id]".into());
    };
    let chain = chain.first().map_or(Ok(31337), |id| id.parse())?;
    let lane = Lane::new(ChainId::new(chain)?, parse_address(signer)?);
    let seconds = std::time::Duration::from_secs;
    let store = open(OpenOptions {
        url: url.as_str().into(),
        direct_url: None,
        pool_size: 2,
        statement_timeout: seconds(60),
        lock_timeout: seconds(60),
        pooler: stile_store::postgres::Pooler::None,
        lease: seconds(10),
        serve: false,
    })?;
    store.migrate().await?;
    let begun = Instant::now();
    let next = raw::seed_finished(url, lane, count.parse()?, |written| {
        eprintln!("{written} after {:?}", begun.elapsed());
    })
    .await?;
    println!("{lane}: the next nonce is {next}");
    store.close().await;
    Ok(())
}
