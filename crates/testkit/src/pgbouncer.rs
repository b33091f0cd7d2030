//! A private PgBouncer.

use tempfile::TempDir;

use crate::account::Account;
use crate::launch::Launch;
use crate::process::Process;
use crate::signal::Signal;
use crate::wait::{self, DEADLINE};
use crate::{Postgres, ports, programs, scratch};

/// How often another port is tried when somebody was faster.
const PORT_ATTEMPTS: u32 = 5;

/// Connections to each database: few, so that clients have to share them.
const SERVER_CONNECTIONS: u32 = 4;

/// A running PgBouncer in transaction mode before a server. Dropped, it ends; it also ends with the
/// test process.
#[derive(Debug)]
pub struct PgBouncer {
    process: Process,
    port: u16,
    _directory: TempDir,
}

impl PgBouncer {
    /// Starts one before this server and waits until it takes connections.
    ///
    /// Panics with its output if it does not come up.
    pub async fn start(server: &Postgres) -> Self {
        for _ in 0..PORT_ATTEMPTS {
            let directory = scratch::directory("pgbouncer");
            let account = (scratch::owner(&directory) == 0).then(Account::unprivileged);
            if let Some(account) = account {
                account.take_over(directory.path());
            }
            let port = ports::free_port();
            let file = directory.path().join("pgbouncer.ini");
            std::fs::write(&file, configuration(server.port(), port)).expect("write pgbouncer.ini");
            let process = Launch::new(programs::pgbouncer())
                .scratch(directory.path())
                .account(account)
                .stop_signal(Signal::Int)
                .arg(&file)
                .start();
            // Its own word, since on the port somebody else's server might answer.
            let up = wait::poll(DEADLINE, async || {
                let ready = process.stderr().contains("process up");
                if ready { Some(true) } else { process.try_exit().map(|_| false) }
            });
            match up.await {
                Some(true) => return Self { process, port, _directory: directory },
                Some(false) if process.stderr().contains("Address already in use") => continue,
                Some(false) => panic!("PgBouncer ended{}", process.report()),
                None => panic!("PgBouncer is not ready{}", process.report()),
            }
        }
        panic!("no free port for PgBouncer in {PORT_ATTEMPTS} attempts");
    }

    /// The same database by way of this pooler.
    pub fn url(&self, database_url: &str) -> String {
        let (before, after) = database_url.split_once('@').expect("user@host");
        let (_, database) = after.split_once('/').expect("host/database");
        format!("{before}@127.0.0.1:{}/{database}", self.port)
    }

    /// The process, to freeze it or to read its output.
    pub fn process(&self) -> &Process {
        &self.process
    }
}

fn configuration(server: u16, port: u16) -> String {
    format!(
        "[databases]\n\
         * = host=127.0.0.1 port={server} user=postgres\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         auth_type = any\n\
         pool_mode = transaction\n\
         default_pool_size = {SERVER_CONNECTIONS}\n\
         server_idle_timeout = 1\n\
         max_client_conn = 500\n"
    )
}
