//! `stile serve`.

use std::collections::HashMap;

use super::{ConfigFile, Failure, logging, naming_the_store, run};
use crate::wiring;

pub(super) async fn serve(
    file: &ConfigFile,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    let config = file.load(environment)?;
    logging::start(&config.log)?;
    let parts = wiring::parts(&config, environment)?;
    let running = run::start(parts, config.server.listen, config.store.migrate)
        .await
        .map_err(naming_the_store(&config.store.url))?;
    let address = running.server.address();
    match (address.ip().is_loopback(), running.open) {
        (true, true) => tracing::info!(
            %address,
            "serving; only this machine can reach it, and there is no API key: everybody on it may call"
        ),
        (true, false) => {
            tracing::info!(%address, "serving; only this machine can reach it, with an API key");
        }
        (false, _) => tracing::info!(%address, "serving; every call needs an API key"),
    }
    running.until_signal().await
}
