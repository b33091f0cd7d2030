//! `stile migrate`.

use std::collections::HashMap;

use super::{ConfigFile, Failure, naming_the_store};
use crate::wiring;

pub(super) async fn migrate(
    file: &ConfigFile,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    let config = file.load(environment)?;
    let store = stile_store::open(wiring::open_options(&config, false))?;
    let report =
        store.migrate().await.map_err(|e| naming_the_store(&config.store.url)(Failure::from(e)))?;
    store.close().await;
    for name in &report.applied {
        println!("applied {name}");
    }
    println!("schema is at version {}", report.version);
    Ok(())
}
