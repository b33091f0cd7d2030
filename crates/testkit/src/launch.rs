//! How a program is started.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::account::Account;
use crate::process::Process;
use crate::scratch;
use crate::signal::Signal;
use crate::watcher::Watcher;

/// Waits for one line, then becomes the program, with the environment given and no other.
///
/// Until that line comes nothing has started that somebody would have to end: if the test process
/// dies before its child has a watcher, `read` fails and the gate is gone. `exec` keeps the process
/// number, so the program is the test's own child, with its signals and its exit status.
const GATE: &str = r#"read -r open && exec env -i "$@" </dev/null"#;

/// A program about to be started.
///
/// ```
/// # let runtime = tokio::runtime::Runtime::new().unwrap();
/// # runtime.block_on(async {
/// use testkit::{DEADLINE, Launch};
///
/// let process = Launch::new("/bin/sh")
///     .args(["-c", "echo $GREETING"])
///     .env("GREETING", "hello")
///     .start();
/// assert!(process.wait_exit(DEADLINE).await.success());
/// assert_eq!(process.stdout(), "hello\n");
/// # });
/// ```
#[derive(Debug)]
#[must_use = "nothing runs before `start`"]
pub struct Launch {
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<OsString>,
    current_directory: Option<PathBuf>,
    scratch: Option<PathBuf>,
    account: Option<Account>,
    stop_signal: Signal,
}

impl Launch {
    /// A program by its path, which counts from our own current directory, not the child's. Its
    /// environment is empty but for `PATH`.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        let launch = Self {
            program: std::path::absolute(program.into()).expect("the path of a program"),
            arguments: Vec::new(),
            environment: Vec::new(),
            current_directory: None,
            scratch: None,
            account: None,
            stop_signal: Signal::Kill,
        };
        launch.env("PATH", std::env::var_os("PATH").unwrap_or_default())
    }

    /// The same for another program.
    pub(crate) fn replace(mut self, program: PathBuf) -> Self {
        self.program = program;
        self
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds arguments.
    pub fn args<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable; the last setting of a name wins.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        let mut setting = name.into();
        setting.push("=");
        setting.push(value.into());
        self.environment.push(setting);
        self
    }

    /// Starts in this directory rather than in the child's own.
    pub fn current_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.current_directory = Some(directory.into());
        self
    }

    /// What ends the program when it is dropped or the test process dies: `SIGKILL` unless said
    /// otherwise. A program that has not ended ten seconds later is killed all the same.
    pub fn stop_signal(mut self, signal: Signal) -> Self {
        self.stop_signal = signal;
        self
    }

    /// Uses a directory of the caller's for output and as the place to start in. Output is appended
    /// to what an earlier process left there. The caller removes it; if the test process dies, the
    /// watcher does.
    pub(crate) fn scratch(mut self, directory: &Path) -> Self {
        self.scratch = Some(directory.to_owned());
        self
    }

    /// Runs as another user; only root may.
    pub(crate) fn account(mut self, account: Option<Account>) -> Self {
        self.account = account;
        self
    }

    /// Starts the program.
    ///
    /// Panics if there is no such file. A file that cannot be executed shows in the output, with
    /// exit status 126.
    pub fn start(self) -> Process {
        assert!(self.program.is_file(), "there is no program at {}", self.program.display());
        let (directory, own) = match &self.scratch {
            Some(directory) => (directory.clone(), None),
            None => {
                let own = scratch::directory("process");
                (own.path().to_owned(), Some(own))
            }
        };
        let mut child = self.spawn_gate(&directory);
        let watcher = Watcher::start(child.id(), self.stop_signal, &directory);
        let mut gate = child.stdin.take().expect("the gate reads from a pipe");
        gate.write_all(b"open\n").expect("open the gate");
        Process::new(child, watcher, self.stop_signal, self.program, directory, own)
    }

    fn spawn_gate(&self, directory: &Path) -> Child {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", GATE, "sh"])
            .args(&self.environment)
            .arg(&self.program)
            .args(&self.arguments)
            .current_dir(self.current_directory.as_deref().unwrap_or(directory))
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(open_to_append(&directory.join(crate::process::STDOUT)))
            .stderr(open_to_append(&directory.join(crate::process::STDERR)));
        if let Some(account) = self.account {
            command.uid(account.user_id).gid(account.group_id);
        }
        command.spawn().unwrap_or_else(|error| panic!("start {}: {error}", self.program.display()))
    }
}

fn open_to_append(file: &Path) -> File {
    OpenOptions::new().create(true).append(true).open(file).expect("create the output file")
}
