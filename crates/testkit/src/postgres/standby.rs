//! A second server that follows the first, and takes its place.

use std::sync::atomic::{AtomicU32, Ordering};

use super::Postgres;
use crate::account::Account;
use crate::scratch;
use crate::wait::eventually;

impl Postgres {
    /// A copy of this server that follows it, asynchronously unless
    /// [`Postgres::wait_for_standbys`] says otherwise, and answers reads. Stopped and started again,
    /// it goes on from where it was.
    ///
    /// Panics with the server's log if it does not come up.
    pub async fn start_standby(&self) -> Self {
        let directory = scratch::directory("standby");
        let account = (scratch::owner(&directory) == 0).then(Account::unprivileged);
        if let Some(account) = account {
            account.take_over(directory.path());
        }
        let mut standby = Self {
            process: None,
            port: 0,
            settings: self.settings.clone(),
            account,
            databases: AtomicU32::new(self.databases.load(Ordering::Relaxed)),
            directory,
        };
        standby.copy(self.port).await;
        standby.launch_somewhere().await;
        standby.has_caught_up_with(self).await;
        standby
    }

    /// Copies a running server's data, with a note to follow it.
    async fn copy(&self, primary: u16) {
        let (port, data) = (primary.to_string(), self.data_directory().display().to_string());
        let from = ["--host=127.0.0.1", "--username=postgres", "--port", &port, "--pgdata", &data];
        let how =
            ["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"];
        self.run("pg_basebackup", &[&from[..], &how[..]].concat()).await;
    }

    /// Waits until this standby has everything that the other server has written so far.
    pub async fn has_caught_up_with(&self, primary: &Self) {
        let written = primary.value("SELECT pg_current_wal_lsn()").await;
        let reached = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'::pg_lsn");
        eventually("the standby to catch up", async || {
            (self.value(&reached).await == "t").then_some(())
        })
        .await;
    }

    /// Makes every commit wait until a standby has it.
    pub async fn wait_for_standbys(&self) {
        self.execute("ALTER SYSTEM SET synchronous_standby_names = '*'").await;
        self.execute("SELECT pg_reload_conf()").await;
        eventually("a synchronous standby", async || {
            self.log().contains("is now a synchronous standby").then_some(())
        })
        .await;
    }

    /// Makes a standby a server of its own, with what it has. Returns when it takes writes.
    pub async fn promote(&self) {
        // From the server that it followed, which has no standby of its own now.
        self.execute("SELECT pg_promote()").await;
        self.execute("ALTER SYSTEM RESET synchronous_standby_names").await;
        self.execute("SELECT pg_reload_conf()").await;
    }
}
