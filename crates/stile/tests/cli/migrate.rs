//! `stile migrate`, and schemas that do not fit.

use crate::Place;
use crate::common::{Database, Finished, NodeOptions, SIGNER};

const NEWER: &str = "INSERT INTO refinery_schema_history (version, name, applied_on, checksum)
                     VALUES (999, 'from_the_future', '2030-01-01T00:00:00Z', '1')";

/// The names of all migrations, oldest first, as they are in the sources.
fn migrations() -> Vec<String> {
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/migrations/sqlite");
    let files = std::fs::read_dir(sources).unwrap().map(|file| file.unwrap().path());
    let mut names: Vec<String> =
        files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort_by_key(|name| version(name));
    names
}

fn version(name: &str) -> u32 {
    name[1..].split("__").next().unwrap().parse().unwrap()
}

/// The version that they lead to.
fn newest() -> u32 {
    version(migrations().last().unwrap())
}

fn assert_migrates(first: &Finished, second: &Finished) {
    let at = format!("schema is at version {}\n", newest());
    let applied: String = migrations().iter().map(|name| format!("applied {name}\n")).collect();
    assert_eq!(first.ok(), applied + &at);
    assert_eq!(second.ok(), at, "twice is harmless");
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
        assert!(said.contains(&format!("only knows up to version {}", newest())), "{said}");
    }
}

#[tokio::test]
async fn a_node_that_may_not_migrate_asks_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let options = NodeOptions::sqlite(&directory.path().join("stile.db"), &[SIGNER.to_owned()]);
    let refused = options.set_literal("store.migrate", "false").refused().await;
    for part in ["version 0", &format!("needs version {}", newest()), "stile migrate"] {
        assert!(refused.failure().contains(part), "{part} is missing: {refused:?}");
    }
}
