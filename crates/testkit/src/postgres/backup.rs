//! Backups of a database.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::Postgres;
use crate::programs;
use crate::signal::Signal;
use crate::wait::{DEADLINE, eventually};

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

    /// Loads a backup over a database in which tables are, and somebody may be working: they are
    /// dropped and made anew.
    pub async fn restore_clean(&self, database_url: &str, backup: &Backup) {
        let target = format!("--dbname={database_url}");
        let file = backup.file.display().to_string();
        self.run("pg_restore", &["--clean", "--if-exists", "--exit-on-error", &target, &file])
            .await;
    }

    /// Copies a database that nobody is connected to, by its name; waits until nobody is. Returns the
    /// name of the copy.
    pub async fn copy_database(&self, name: &str) -> String {
        let copy = format!("copy_{}", self.databases.fetch_add(1, Ordering::Relaxed) + 1);
        let statement = format!("CREATE DATABASE {copy} TEMPLATE {name}");
        eventually("everybody to leave", async || self.attempt(&statement).await.ok()).await;
        copy
    }

    /// Puts a copy in the place of a database, whoever is connected to that.
    pub async fn replace_database(&self, name: &str, copy: &str) {
        self.execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await;
        self.execute(&format!("ALTER DATABASE {copy} RENAME TO {name}")).await;
    }

    /// Puts another database in the place of one, and answers with the name under which that is kept.
    /// Nobody connects to it meanwhile.
    pub async fn swap_database(&self, name: &str, other: &str) -> String {
        let kept = format!("kept_{}", self.databases.fetch_add(1, Ordering::Relaxed) + 1);
        let rename = format!("ALTER DATABASE {name} RENAME TO {kept}");
        eventually("everybody to leave", async || self.attempt(&rename).await.ok()).await;
        self.execute(&format!("ALTER DATABASE {other} RENAME TO {name}")).await;
        kept
    }

    /// Ends the server as one that is ended every day: its files are whole afterwards.
    pub async fn stop(&mut self) {
        let process = self.process.take().expect("the server runs");
        process.signal(Signal::Int);
        process.wait_exit(DEADLINE).await;
    }

    /// A copy of a stopped server's files.
    pub async fn copy_files(&self) -> Backup {
        let name = format!("files_{}", self.databases.fetch_add(1, Ordering::Relaxed) + 1);
        let file = self.directory.path().join(name);
        self.copy_directory(&self.data_directory(), &file).await;
        Backup { file }
    }

    /// Puts a copy in the place of a stopped server's files.
    pub async fn put_files_back(&self, copy: &Backup) {
        assert!(self.process.is_none(), "the server still runs");
        std::fs::remove_dir_all(self.data_directory()).expect("remove the files");
        self.copy_directory(&copy.file, &self.data_directory()).await;
    }

    async fn copy_directory(&self, from: &Path, to: &Path) {
        let from = from.display().to_string();
        let to = to.display().to_string();
        let process = self
            .program("initdb")
            .replace(programs::on_path("cp").expect("cp on PATH"))
            .stop_signal(Signal::Term)
            .args(["-a", &from, &to])
            .start();
        let status = process.wait_exit(DEADLINE).await;
        assert!(status.success(), "cp failed ({status}){}", process.report());
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
