//! `stile migrate`, and schemas that do not fit.

use crate::Place;
use crate::common::{Database, Finished, NodeOptions, SIGNER};

const NEWER: &str = "INSERT INTO refinery_schema_history (version, name, applied_on, checksum)
                     VALUES (999, 'from_the_future', '2030-01-01T00:00:00Z', '1')";

fn assert_migrates(first: &Finished, second: &Finished) {
    assert_eq!(
        first.ok(),
        "applied V1__lanes_and_nonces\napplied V2__transactions\napplied V3__api_keys\n\
         schema is at version 3\n"
    );
    assert_eq!(second.ok(), "schema is at version 3\n", "twice is harmless");
}

#[tokio::test]
async fn migrating_says_what_was_done_and_twice_is_harmless() {
    let place = Place::new("[store]\nurl = \"sqlite://stile.db\"\n");
    assert_migrates(&place.run(&["migrate"]).await, &place.run(&["migrate"]).await);

    let database = Database::new().await;
    let place = Place::new(&format!("[store]\nurl = \"{}\"\n", database.url));
    assert_migrates(&place.run(&["migrate"]).await, &place.run(&["migrate"]).await);
}

#[tokio::test]
async fn a_schema_that_is_newer_than_the_binary_is_left_alone() {
    let place = Place::new("[store]\nurl = \"sqlite://stile.db\"\n");
    place.run(&["migrate"]).await.ok();
    let file = place.directory.path().join("stile.db");
    rusqlite::Connection::open(&file).unwrap().execute_batch(NEWER).unwrap();
    let on_sqlite = NodeOptions::sqlite(&file, &[SIGNER.to_owned()]);

    let database = Database::new().await;
    let options = NodeOptions::postgres("a", &database.url, &[SIGNER.to_owned()]);
    assert_eq!(options.start().await.terminate().await.code, Some(0));
    database.execute(NEWER).await;

    for refused in [
        place.run(&["migrate"]).await,
        on_sqlite.refused().await,
        on_sqlite.set_literal("store.migrate", "false").refused().await,
        options.refused().await,
        options.clone().set_literal("store.migrate", "false").refused().await,
    ] {
        let said = refused.failure();
        assert!(said.contains("schema is at version 999"), "{said}");
        assert!(said.contains("only knows up to version 3"), "{said}");
    }
}

#[tokio::test]
async fn a_node_that_may_not_migrate_asks_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let options = NodeOptions::sqlite(&directory.path().join("stile.db"), &[SIGNER.to_owned()]);
    let refused = options.set_literal("store.migrate", "false").refused().await;
    for part in ["version 0", "needs version 3", "stile migrate"] {
        assert!(refused.failure().contains(part), "{part} is missing: {refused:?}");
    }
}
