//! A database for one measurement.

use uuid::Uuid;

use super::postgres::{connect, get};
use crate::StoreError;

/// A database that nobody else uses, on a PostgreSQL server that others may use. It stays until it
/// is removed.
#[derive(Debug)]
pub struct OwnDatabase {
    server: String,
    name: String,
    url: String,
}

impl OwnDatabase {
    /// Creates one, empty, on the server behind this URL. Its name begins with `stile_bench_`.
    /// Fails if the user may not create databases.
    pub async fn create(server: &str) -> Result<Self, StoreError> {
        let name = format!("stile_bench_{}", Uuid::new_v4().simple());
        let url = with_database(server, &name);
        get(&connect(server)?).await?.batch_execute(&format!("CREATE DATABASE {name}")).await?;
        Ok(Self { server: server.to_owned(), name, url })
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Removes it, whoever is still connected.
    pub async fn remove(self) -> Result<(), StoreError> {
        let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        Ok(get(&connect(&self.server)?).await?.batch_execute(&drop).await?)
    }
}

/// The URL of another database of the same server.
fn with_database(url: &str, name: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("postgres", url));
    let (place, parameters) = match rest.split_once('?') {
        Some((place, parameters)) => (place, format!("?{parameters}")),
        None => (rest, String::new()),
    };
    let server = place.split_once('/').map_or(place, |(server, _)| server);
    format!("{scheme}://{server}/{name}{parameters}")
}

#[cfg(test)]
mod tests {
    use super::with_database;

    #[test]
    fn only_the_name_of_the_database_changes() {
        for (url, expected) in [
            ("postgres://me@host/mine", "postgres://me@host/x"),
            (
                "postgres://me:pw@host:5432/mine?sslmode=require",
                "postgres://me:pw@host:5432/x?sslmode=require",
            ),
            ("postgresql://host", "postgresql://host/x"),
            ("postgres://%2Ftmp/mine?user=me", "postgres://%2Ftmp/x?user=me"),
        ] {
            assert_eq!(with_database(url, "x"), expected);
        }
    }
}
