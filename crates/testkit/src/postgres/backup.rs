//! Backups of a database.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use super::Postgres;
use crate::programs;
use crate::signal::Signal;
use crate::wait::DEADLINE;

/// A database as it was at one moment. It lies in the server's directory and goes with it.
#[derive(Debug)]
pub struct Backup {
    file: PathBuf,
}

impl Postgres {
    /// Dumps a database, by its URL.
    pub async fn dump(&self, database_url: &str) -> Backup {
        let name = format!("dump_{}", self.databases.fetch_add(1, Ordering::Relaxed) + 1);
        let file = self.directory.path().join(name);
        let target = format!("--file={}", file.display());
        self.run("pg_dump", &["--format=custom", &target, database_url]).await;
        Backup { file }
    }

    /// Loads a backup into a new database, and returns its URL.
    pub async fn restore(&self, backup: &Backup) -> String {
        let url = self.database().await;
        let target = format!("--dbname={url}");
        let file = backup.file.display().to_string();
        self.run("pg_restore", &["--exit-on-error", &target, &file]).await;
        url
    }

    /// Drops a database, whoever is connected to it, and loads a backup into a new one of the same
    /// name.
    pub async fn restore_over(&self, name: &str, backup: &Backup) {
        self.execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await;
        self.execute(&format!("CREATE DATABASE {name}")).await;
        let target = format!("--dbname={}", self.url(name));
        let file = backup.file.display().to_string();
        self.run("pg_restore", &["--exit-on-error", &target, &file]).await;
    }

    /// Runs one of the programs that lie beside the server's own: on PATH, Debian has others of the
    /// same names that look for clusters.
    pub(super) async fn run(&self, name: &str, arguments: &[&str]) {
        let initdb = programs::postgres("initdb").canonicalize().expect("the path of initdb");
        let process = self
            .program("initdb")
            .replace(initdb.with_file_name(name))
            .stop_signal(Signal::Term)
            .args(arguments.iter().copied())
            .start();
        let status = process.wait_exit(DEADLINE).await;
        assert!(status.success(), "{name} failed ({status}){}", process.report());
    }
}
