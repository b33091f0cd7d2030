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

/// Opens the configured store as it is: nothing is made in an empty database, and no schema is changed.
pub(super) async fn as_it_is(config: &Config) -> Result<Arc<dyn Store>, Failure> {
    let ready = async {
        let store: Arc<dyn Store> = stile_store::open(wiring::open_options(config, false))?;
        match store.check_schema().await {
            Ok(()) => Ok::<_, Failure>(store),
            Err(StoreError::SchemaTooOld { found, known }) => {
                store.close().await;
                Err(too_old(found, known).into())
            }
            Err(error) => Err(error.into()),
        }
    };
    ready.await.map_err(naming_the_store(&config.store.url))
}

/// What is told where the schema is not there yet, or of an earlier version.
fn too_old(found: i32, known: i32) -> String {
    let there = match found {
        0 => "the database is empty, and this makes no schema in it".to_owned(),
        _ => format!(
            "the database has schema {found}, this binary needs {known}, and this changes none"
        ),
    };
    format!("{there}\nhint: check store.url; run `stile migrate`, or start the server first")
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
