//! `stile serve`.

use std::collections::HashMap;

use super::{ConfigFile, Failure, logging, naming_the_store, run};
use crate::{host, wiring};

pub(super) async fn serve(
    file: &ConfigFile,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    let config = file.load(environment)?;
    logging::start(&config.log)?;
    if let Some(path) = &file.config
        && config.holds_secrets()
        && let Ok(found) = std::fs::metadata(path)
        && let Err(why) = host::check_private(path, &found)
    {
        tracing::warn!("{why}, or give the secrets by reference");
    }
    let parts = wiring::parts(&config, environment)?;
    let running = run::start(parts, config.server.listen, config.store.migrate)
        .await
        .map_err(naming_the_store(&config.store.url))?;
    let (address, tls) = (running.server.address(), running.server.is_tls());
    match (address.ip().is_loopback(), running.open) {
        (true, true) => tracing::info!(
            %address,
            tls,
            "serving; only this machine can reach it, and there is no API key: everybody on it may call"
        ),
        (true, false) => {
            tracing::info!(%address, tls, "serving; only this machine can reach it, with an API key");
        }
        (false, _) => tracing::info!(%address, tls, "serving; every call needs an API key"),
    }
    running.until_signal().await
}
