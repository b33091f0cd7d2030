//! Commands that work on the store itself, beside whatever serves it.

use std::collections::HashMap;
use std::sync::Arc;

use stile_store::{Store, StoreError};

use super::{ConfigFile, Failure, naming_the_store};
use crate::config::Config;
use crate::wiring;

/// Opens the configured store beside whatever serves it, and does one thing with it.
pub(super) async fn on_store<T>(
    file: &ConfigFile,
    environment: &HashMap<String, String>,
    work: impl AsyncFnOnce(&dyn Store) -> Result<T, StoreError>,
) -> Result<T, Failure> {
    let config = file.load(environment)?;
    let store = opened(&config).await?;
    let done = work(&*store).await;
    store.close().await;
    done.map_err(Failure::from).map_err(naming_the_store(&config.store.url))
}

/// Opens the configured store, with its schema as it should be.
pub(super) async fn opened(config: &Config) -> Result<Arc<dyn Store>, Failure> {
    let ready = async {
        let store: Arc<dyn Store> = stile_store::open(wiring::open_options(config, false))?;
        // As a server would, so that it can be used before one has ever run.
        if config.store.migrate {
            store.migrate().await?;
        }
        store.check_schema().await?;
        Ok::<_, Failure>(store)
    };
    ready.await.map_err(naming_the_store(&config.store.url))
}
