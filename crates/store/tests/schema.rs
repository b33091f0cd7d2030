//! The schema, as the migrations leave it, is committed under `schema/`, so that a review sees
//! what a migration does.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod common;

use std::path::Path;

use common::{Bench, Raw};

/// Set to anything, it makes these tests write the files instead of comparing with them.
const UPDATE: &str = "STILE_UPDATE_SCHEMA";

const HEADER: &str = "\
-- The schema as the migrations leave it, for reviews. Not run by anything. To write it anew:
-- STILE_UPDATE_SCHEMA=1 cargo test -p stile-store --test schema
";

/// The table in which the migrations themselves are recorded is not ours to describe.
const NOT_OURS: &str = "refinery_schema_history";

#[tokio::test]
async fn the_postgres_schema_is_the_committed_one() {
    let bench = Bench::postgres().await;
    compare("postgres.sql", &postgres(&bench.raw().await).await);
}

#[tokio::test]
async fn the_sqlite_schema_is_the_committed_one() {
    let bench = Bench::sqlite().await;
    compare("sqlite.sql", &sqlite(&bench.raw().await).await);
}

fn compare(name: &str, statements: &[String]) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema").join(name);
    let found = format!("{HEADER}\n{}\n", statements.join("\n\n"));
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&file, &found).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    if found != committed {
        panic!(
            "schema/{name} is not what the migrations make. If the migrations are right, run \
             `{UPDATE}=1 cargo test -p stile-store --test schema` and commit the file.\n\n{}",
            first_difference(&committed, &found)
        );
    }
}

fn first_difference(committed: &str, found: &str) -> String {
    let mut lines = committed.lines().zip(found.lines()).zip(1..);
    match lines.find(|((committed, found), _)| committed != found) {
        Some(((committed, found), number)) => {
            format!("line {number}\n  committed: {committed}\n  found:     {found}")
        }
        None => "one of the two ends before the other".into(),
    }
}

/// Everything that SQLite knows, in the words it was told.
async fn sqlite(raw: &Raw) -> Vec<String> {
    let everything = format!(
        "SELECT sql || ';' FROM sqlite_schema
         WHERE sql IS NOT NULL AND tbl_name <> '{NOT_OURS}'
         ORDER BY CASE type WHEN 'table' THEN 1 WHEN 'index' THEN 2 ELSE 3 END, tbl_name, name"
    );
    raw.rows(&everything).await.concat()
}

/// Tables, indexes, triggers, functions and comments, from the catalog.
async fn postgres(raw: &Raw) -> Vec<String> {
    let mut statements = tables(raw).await;
    for query in [indexes(), functions(), triggers(), comments()] {
        statements.extend(raw.rows(&query).await.concat());
    }
    statements
}

/// Tables of ours, as a condition on `pg_class c`.
fn ours() -> String {
    format!("c.relnamespace = 'public'::regnamespace AND c.relname <> '{NOT_OURS}'")
}

async fn tables(raw: &Raw) -> Vec<String> {
    let names = format!(
        "SELECT c.relname, coalesce(' WITH (' || array_to_string(c.reloptions, ', ') || ')', '')
         FROM pg_class c WHERE {} AND c.relkind IN ('r', 'p') ORDER BY c.relname",
        ours()
    );
    let mut statements = Vec::new();
    for row in raw.rows(&names).await {
        let (name, options) = (&row[0], &row[1]);
        let mut parts = raw.rows(&columns(name)).await.concat();
        parts.extend(raw.rows(&constraints(name)).await.concat());
        statements
            .push(format!("CREATE TABLE {name} (\n    {}\n){options};", parts.join(",\n    ")));
    }
    statements
}

fn columns(table: &str) -> String {
    format!(
        "SELECT concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod),
                          CASE WHEN a.attnotnull THEN 'NOT NULL' END,
                          CASE WHEN a.attidentity = 'a' THEN 'GENERATED ALWAYS AS IDENTITY' END,
                          CASE WHEN a.attgenerated = '' THEN 'DEFAULT ' || pg_get_expr(d.adbin, d.adrelid)
                               ELSE format('GENERATED ALWAYS AS (%s) STORED', btrim(regexp_replace(
                                   pg_get_expr(d.adbin, d.adrelid), '\\s+', ' ', 'g'))) END)
         FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
         WHERE a.attrelid = '{table}'::regclass AND a.attnum > 0 AND NOT a.attisdropped
         ORDER BY a.attnum"
    )
}

/// Without the constraints behind `NOT NULL`, which newer servers list and older ones do not.
fn constraints(table: &str) -> String {
    format!(
        "SELECT 'CONSTRAINT ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
         WHERE conrelid = '{table}'::regclass AND contype <> 'n' ORDER BY contype DESC, conname"
    )
}

/// Those that no constraint stands for.
fn indexes() -> String {
    format!(
        "SELECT pg_get_indexdef(i.indexrelid) || ';'
         FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
         WHERE {} AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid)
         ORDER BY i.indexrelid::regclass::text",
        ours()
    )
}

fn functions() -> String {
    "SELECT btrim(pg_get_functiondef(p.oid), E'\\n') || ';' FROM pg_proc p
     WHERE p.pronamespace = 'public'::regnamespace ORDER BY p.proname, p.oid::regprocedure::text"
        .into()
}

fn triggers() -> String {
    format!(
        "SELECT pg_get_triggerdef(t.oid) || ';' FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
         WHERE {} AND NOT t.tgisinternal ORDER BY c.relname, t.tgname",
        ours()
    )
}

fn comments() -> String {
    format!(
        "SELECT format('COMMENT ON %s IS %L;', pg_describe_object(classoid, objoid, objsubid), description)
         FROM pg_description JOIN pg_class c ON c.oid = objoid AND classoid = 'pg_class'::regclass
         WHERE {} ORDER BY c.relname, objsubid",
        ours()
    )
}
