//! Commands that run to their end.

use std::path::Path;
use std::time::Duration;

use testkit::{DEADLINE, Launch, Process};

/// The binary under test, with these arguments.
pub(crate) fn stile(arguments: &[&str]) -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_stile")).args(arguments.iter().copied())
}

/// What a command left behind.
#[derive(Debug)]
pub(crate) struct Finished {
    /// `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    pub(crate) async fn of(process: &Process) -> Self {
        Self::within(process, DEADLINE).await
    }

    /// Of a command that takes its time.
    pub(crate) async fn within(process: &Process, patience: Duration) -> Self {
        let status = process.wait_exit(patience).await;
        Self { code: status.code(), stdout: process.stdout(), stderr: process.stderr() }
    }

    /// Standard output of a success.
    #[track_caller]
    pub(crate) fn ok(&self) -> &str {
        assert_eq!(self.code, Some(0), "{self:#?}");
        &self.stdout
    }

    /// The message of a failure, as it is meant for the person at the terminal.
    #[track_caller]
    pub(crate) fn failure(&self) -> &str {
        assert_eq!(self.code, Some(1), "{self:#?}");
        assert_eq!(self.stdout, "", "a failure writes to standard error only");
        let message = self.stderr.lines().position(|line| line.starts_with("error: "));
        assert!(message.is_some(), "{self:#?}");
        &self.stderr
    }
}

/// Runs the binary in a directory of its own.
pub(crate) async fn run(arguments: &[&str]) -> Finished {
    Finished::of(&stile(arguments).start()).await
}

/// Runs the binary in a directory of the test's.
pub(crate) async fn run_in(directory: &Path, arguments: &[&str]) -> Finished {
    Finished::of(&stile(arguments).current_directory(directory).start()).await
}
