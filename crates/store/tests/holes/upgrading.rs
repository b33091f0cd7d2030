//! Nodes of the version before, which run while the schema is brought up to date.

use std::path::Path;

use crate::common::{Bench, wait_until_blocked};

/// The migrations of PostgreSQL up to a version, oldest first, and the one after it.
fn migrations(up_to: u32) -> (Vec<String>, String) {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations/postgres");
    let files = std::fs::read_dir(place).unwrap().map(|file| file.unwrap().path());
    let mut all: Vec<(u32, String)> = files
        .map(|file| {
            let name = file.file_stem().unwrap().to_str().unwrap();
            let version = name[1..].split("__").next().unwrap().parse().unwrap();
            (version, std::fs::read_to_string(&file).unwrap())
        })
        .collect();
    all.sort();
    let next = all.iter().find(|(version, _)| *version == up_to + 1).unwrap().1.clone();
    all.retain(|(version, _)| *version <= up_to);
    (all.into_iter().map(|(_, sql)| sql).collect(), next)
}

/// A node of the version before makes the first key, which is not committed yet.
///
/// Fails if the migration looks for keys before that, and has its trigger after it: then the database does
/// not know that there was a key, and is open to all once that one has ended.
#[tokio::test]
async fn hole_44_a_key_that_is_made_during_the_migration_closes_the_database() {
    let bench = Bench::postgres().await;
    let empty = bench.database.another().await;
    let (older, migrates, observer) = (empty.raw().await, empty.raw().await, empty.raw().await);
    let (before, closing) = migrations(10);
    for migration in before {
        older.execute(&migration).await;
    }
    older
        .execute(
            "BEGIN;
             INSERT INTO api_key (key_id, name, hash, hint, operations, created_at)
             VALUES (gen_random_uuid(), 'first', sha256('a token'), 'stile_', 'read', clock_timestamp())",
        )
        .await;
    let migrating = async {
        migrates.execute("SET application_name = 'stile'").await;
        migrates.execute(&format!("BEGIN; {closing}; COMMIT")).await;
    };
    let committing = async {
        wait_until_blocked(&observer, 1).await;
        older.execute("COMMIT").await;
    };
    tokio::join!(migrating, committing);
    assert_eq!(observer.value("SELECT count(*) FROM api_closed").await, "1");
}
