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
    tracing::info!(address = %running.server.address(), "serving; only this machine can reach it");
    running.until_signal().await
}
