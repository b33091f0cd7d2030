//! A private PostgreSQL server.

mod backup;
mod freeze;
mod point_in_time;
mod standby;

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;
use tokio::sync::OnceCell;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

pub use self::backup::Backup;
pub use self::freeze::Frozen;
use crate::account::Account;
use crate::launch::Launch;
use crate::process::Process;
use crate::signal::Signal;
use crate::wait::{self, DEADLINE};
use crate::{ports, programs, scratch};

/// What every server gets. Durability is real, as some tests are about it; waits for locks and
/// deadlocks show in the log, as other tests count them there.
const SETTINGS: &[(&str, &str)] = &[
    ("listen_addresses", "127.0.0.1"),
    ("fsync", "on"),
    ("max_connections", "200"),
    ("timezone", "UTC"),
    ("log_timezone", "UTC"),
    ("log_destination", "stderr"),
    ("log_line_prefix", "%m [%p] %d %a "),
    ("log_lock_waits", "on"),
    ("deadlock_timeout", "200ms"),
];

/// How often another port is tried when somebody was faster.
const PORT_ATTEMPTS: u32 = 5;

/// A PostgreSQL server in a temporary directory, listening on 127.0.0.1, trusting everybody.
///
/// Dropped, it is stopped and its directory removed; the same happens when the test process dies.
#[derive(Debug)]
pub struct Postgres {
    /// `None` while stopped. Declared before the directory, so that it goes first.
    process: Option<Process>,
    port: u16,
    settings: Vec<(String, String)>,
    account: Option<Account>,
    databases: AtomicU32,
    directory: TempDir,
}

impl Postgres {
    /// The one server that the tests of a process share, started at first use. Each test takes a
    /// [`Postgres::database`] of its own.
    ///
    /// It is handed out as a shared reference, so that no test can stop it under the others.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<Postgres> = OnceCell::const_new();
        SHARED.get_or_init(|| Self::start(&[])).await
    }

    /// A server of one's own, with settings on top of the usual ones.
    ///
    /// Panics with the server's log if it does not come up.
    pub async fn start(extra_settings: &[(&str, &str)]) -> Self {
        let directory = scratch::directory("postgres");
        let runs_as_root = scratch::owner(&directory) == 0;
        let account = runs_as_root.then(Account::unprivileged);
        if let Some(account) = account {
            account.take_over(directory.path());
        }
        let settings = SETTINGS.iter().chain(extra_settings);
        let mut server = Self {
            process: None,
            port: 0,
            settings: settings.map(|&(name, value)| (name.into(), value.into())).collect(),
            account,
            databases: AtomicU32::new(0),
            directory,
        };
        server.initialise().await;
        server.launch_somewhere().await;
        server
    }

    /// Starts the server on a port that is free.
    async fn launch_somewhere(&mut self) {
        for _ in 0..PORT_ATTEMPTS {
            self.port = ports::free_port();
            match self.launch().await {
                Ok(()) => return,
                Err(_) if self.log().contains("Address already in use") => continue,
                Err(status) => panic!("PostgreSQL ended ({status}):\n{}", self.log()),
            }
        }
        panic!("no free port for PostgreSQL in {PORT_ATTEMPTS} attempts:\n{}", self.log());
    }

    async fn initialise(&self) {
        let process = self
            .program("initdb")
            .stop_signal(Signal::Term)
            .args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"])
            .arg("--no-sync")
            .arg("-D")
            .arg(self.data_directory())
            .start();
        let status = process.wait_exit(DEADLINE).await;
        assert!(status.success(), "initdb failed ({status}){}", process.report());
    }

    /// Starts the server and waits until it answers; its exit status if it ends instead.
    async fn launch(&mut self) -> Result<(), ExitStatus> {
        let mut launch = self.program("postgres").stop_signal(Signal::Quit);
        launch = launch.arg("-D").arg(self.data_directory()).arg("-p").arg(self.port.to_string());
        launch = launch.arg("-k").arg(self.directory.path());
        for (name, value) in &self.settings {
            launch = launch.arg("-c").arg(format!("{name}={value}"));
        }
        let process = launch.start();
        let end = wait::poll(DEADLINE, async || match process.try_exit() {
            Some(status) => Some(Err(status)),
            None => self.answers().await.then_some(Ok(())),
        });
        match end.await {
            Some(Ok(())) => self.process = Some(process),
            Some(Err(status)) => return Err(status),
            None => panic!("PostgreSQL does not answer{}", process.report()),
        }
        Ok(())
    }

    /// Asked over the socket in our own directory: on the port, somebody else's server might
    /// answer. The server opens the port first.
    async fn answers(&self) -> bool {
        let host = self.directory.path().display();
        let configuration = format!("host={host} port={} user=postgres dbname=postgres", self.port);
        tokio_postgres::connect(&configuration, NoTls).await.is_ok()
    }

    fn program(&self, name: &str) -> Launch {
        Launch::new(programs::postgres(name))
            .env("LC_ALL", "C")
            .scratch(self.directory.path())
            .account(self.account)
    }

    fn data_directory(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Creates an empty database, and returns its URL.
    pub async fn database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed) + 1);
        self.execute(&format!("CREATE DATABASE {name}")).await;
        self.url(&name)
    }

    /// Runs a statement in the database `postgres`, over a connection of its own: connections
    /// belong to the runtime of one test, while a server may be shared by many.
    async fn execute(&self, statement: &str) {
        let done = self.attempt(statement).await;
        done.unwrap_or_else(|error| panic!("{statement}: {error:?}\n{}", self.log()));
    }

    /// The same, for a statement that may be refused.
    async fn attempt(&self, statement: &str) -> Result<(), tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(&self.url("postgres"), NoTls)
            .await
            .unwrap_or_else(|error| panic!("connect to PostgreSQL: {error}\n{}", self.log()));
        let run = async move |client: Client| client.batch_execute(statement).await;
        let (done, _) = tokio::join!(run(client), connection);
        done
    }

    /// The first column of the first row that a query in the database `postgres` answers with.
    async fn value(&self, query: &str) -> String {
        let (client, connection) = tokio_postgres::connect(&self.url("postgres"), NoTls)
            .await
            .unwrap_or_else(|error| panic!("connect to PostgreSQL: {error}\n{}", self.log()));
        let run = async move |client: Client| client.simple_query(query).await;
        let (answer, _) = tokio::join!(run(client), connection);
        let answer = answer.unwrap_or_else(|error| panic!("{query}: {error:?}\n{}", self.log()));
        let row = answer.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        row.unwrap_or_default()
    }

    /// The URL of a database on this server, whether or not it exists.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// The port on 127.0.0.1; the same after [`Postgres::start_again`].
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The directory with the data, the socket and the log.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The server's log so far, over all its starts.
    pub fn log(&self) -> String {
        let log = self.directory.path().join(crate::process::STDERR);
        String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned()
    }

    /// Stops the server as a crash would: connections break, nothing is written back, and the next
    /// start recovers from the write-ahead log. Returns when it is gone.
    pub async fn stop_immediate(&mut self) {
        let process = self.process.take().expect("the server runs");
        process.signal(Signal::Quit);
        process.wait_exit(DEADLINE).await;
    }

    /// The process of a server that runs, to freeze it. (Only the server's own process: those that
    /// serve connections are others, in its group.)
    pub fn process(&self) -> &Process {
        self.process.as_ref().expect("the server runs")
    }

    /// Starts a stopped server again on its data and its port, and waits until it has recovered.
    ///
    /// Panics if it still runs, or with its log if it does not come up.
    pub async fn start_again(&mut self) {
        assert!(self.process.is_none(), "the server still runs");
        if let Err(status) = self.launch().await {
            panic!("PostgreSQL ended ({status}):\n{}", self.log());
        }
    }
}
