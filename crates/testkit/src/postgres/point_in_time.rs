//! Recovery to a point in time: a base backup, and an archive of what was written since.

use std::sync::atomic::{AtomicU32, Ordering};

use super::Postgres;
use crate::account::Account;
use crate::scratch;
use crate::wait::eventually;

impl Postgres {
    /// A server that archives what it writes, in its own directory.
    pub async fn start_archiving() -> Self {
        let command = "mkdir -p ../archive && cp %p ../archive/%f";
        Self::start(&[("archive_mode", "on"), ("archive_command", command)]).await
    }

    /// A copy of this server as it is now, which does not run: see [`Postgres::recover_to`].
    pub async fn base_backup(&self) -> Self {
        let directory = scratch::directory("recovered");
        let account = (scratch::owner(&directory) == 0).then(Account::unprivileged);
        if let Some(account) = account {
            account.take_over(directory.path());
        }
        let kept = self.settings.iter().filter(|(name, _)| !name.starts_with("archive_"));
        let copy = Self {
            process: None,
            port: 0,
            settings: kept.cloned().collect(),
            account,
            databases: AtomicU32::new(self.databases.load(Ordering::Relaxed)),
            directory,
        };
        let (port, data) = (self.port.to_string(), copy.data_directory().display().to_string());
        let from = ["--host=127.0.0.1", "--username=postgres", "--port", &port, "--pgdata", &data];
        let how = ["--wal-method=stream", "--checkpoint=fast", "--no-sync"];
        copy.run("pg_basebackup", &[&from[..], &how[..]].concat()).await;
        copy
    }

    /// Names this moment, for [`Postgres::recover_to`]. Returns when it is in the archive.
    pub async fn name_this_moment(&self, name: &str) {
        self.execute(&format!("SELECT pg_create_restore_point('{name}')")).await;
        let file = self.value("SELECT pg_walfile_name(pg_current_wal_lsn())").await;
        self.execute("SELECT pg_switch_wal()").await;
        let file = self.directory.path().join("archive").join(file);
        eventually("the archive", async || file.exists().then_some(())).await;
    }

    /// Starts a base backup and brings it to a moment that was named on the server it was made of.
    pub async fn recover_to(&mut self, archive_of: &Self, name: &str) {
        self.settings.push(("recovery_target_name".to_owned(), name.to_owned()));
        self.settings.push(("recovery_target_action".to_owned(), "promote".to_owned()));
        self.recover(archive_of).await;
    }

    /// Starts a base backup and brings it as far as the archive goes of the server it was made of.
    pub async fn recover(&mut self, archive_of: &Self) {
        let archive = archive_of.directory.path().join("archive");
        let restore = format!("cp {}/%f %p", archive.display());
        self.settings.push(("restore_command".to_owned(), restore));
        let signal = self.data_directory().join("recovery.signal");
        std::fs::write(&signal, "").expect("write recovery.signal");
        self.launch_somewhere().await;
        eventually("the recovery to end", async || {
            (self.value("SELECT pg_is_in_recovery()").await == "f").then_some(())
        })
        .await;
    }

    /// Starts a recovered server again without the settings that it was recovered by, as somebody does
    /// who tidies up.
    pub async fn forget_recovery(&mut self) {
        self.stop().await;
        self.settings
            .retain(|(name, _)| !name.starts_with("recovery_target") && name != "restore_command");
        self.start_again().await;
    }
}
