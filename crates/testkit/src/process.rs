//! A running program.

use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use crate::launch::Launch;
use crate::signal::Signal;
use crate::wait;
use crate::watcher::Watcher;

pub(crate) const STDOUT: &str = "stdout";
pub(crate) const STDERR: &str = "stderr";

/// How long a program may take to obey its stop signal.
const STOP_DEADLINE: Duration = Duration::from_secs(10);

/// A running program, in a process group of its own.
///
/// Its output goes to files, so that it is whole as soon as the program has ended and can be read
/// at any time before. Dropped, it is stopped and waited for; it also dies with the test process,
/// however that dies.
#[derive(Debug)]
pub struct Process {
    id: u32,
    program: PathBuf,
    stop_signal: Signal,
    state: Mutex<State>,
    directory: PathBuf,
    /// `None` if the directory is the caller's.
    _own_directory: Option<TempDir>,
}

/// The child and the one who must know whether it still lives.
#[derive(Debug)]
struct State {
    child: Child,
    watcher: Option<Watcher>,
    status: Option<ExitStatus>,
}

impl State {
    fn try_exit(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().expect("ask for the exit status");
            if let (Some(_), Some(watcher)) = (self.status, &mut self.watcher) {
                watcher.ended();
            }
        }
        self.status
    }
}

impl Process {
    /// Starts a program with arguments and environment variables; [`Launch`] can say more.
    pub fn start(
        program: impl Into<PathBuf>,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let mut launch = Launch::new(program).args(arguments);
        for (name, value) in environment {
            launch = launch.env(name, value);
        }
        launch.start()
    }

    pub(crate) fn new(
        child: Child,
        watcher: Watcher,
        stop_signal: Signal,
        program: PathBuf,
        directory: PathBuf,
        own_directory: Option<TempDir>,
    ) -> Self {
        Self {
            id: child.id(),
            program,
            stop_signal,
            state: Mutex::new(State { child, watcher: Some(watcher), status: None }),
            directory,
            _own_directory: own_directory,
        }
    }

    /// The process number.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The directory of this process, where it was started unless told otherwise. It is removed
    /// with the process.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Everything written to standard output so far.
    pub fn stdout(&self) -> String {
        read(&self.directory.join(STDOUT))
    }

    /// Everything written to standard error so far.
    pub fn stderr(&self) -> String {
        read(&self.directory.join(STDERR))
    }

    /// Waits for a whole line, of either output, and returns it. A line written before the call
    /// counts.
    ///
    /// Panics with the output so far when the deadline passes, or as soon as the process has ended
    /// without such a line.
    pub async fn wait_for_line(
        &self,
        predicate: impl Fn(&str) -> bool,
        deadline: Duration,
    ) -> String {
        let end = wait::poll(deadline, async || {
            // Asked first: whatever was written before the end is then seen below.
            let exited = self.try_exit();
            match self.find_line(&predicate) {
                Some(line) => Some(Ok(line)),
                None => exited.map(Err),
            }
        })
        .await;
        match end {
            Some(Ok(line)) => line,
            Some(Err(status)) => panic!("ended ({status}) without the line{}", self.report()),
            None => panic!("no such line within {deadline:?}{}", self.report()),
        }
    }

    fn find_line(&self, predicate: impl Fn(&str) -> bool) -> Option<String> {
        [self.stdout(), self.stderr()].iter().find_map(|output| {
            let (whole_lines, _unfinished) = output.rsplit_once('\n')?;
            whole_lines.lines().find(|line| predicate(line)).map(str::to_owned)
        })
    }

    /// Kills the process, unless it has ended by itself.
    pub fn kill(&self) {
        // Locked, so that nobody waits for the child and frees its number in between.
        let mut state = self.state.lock().unwrap();
        if state.try_exit().is_none() {
            Signal::Kill.send(self.id);
        }
    }

    /// Sends a signal. After [`Signal::Stop`] it returns when no thread of the process runs any
    /// more.
    ///
    /// Panics if the process has ended.
    pub fn signal(&self, signal: Signal) {
        let sent = {
            // Locked, so that nobody waits for the child and frees its number in between.
            let mut state = self.state.lock().unwrap();
            state.try_exit().is_none() && signal.send(self.id)
        };
        assert!(sent, "{signal:?} to a process that has ended{}", self.report());
        if signal == Signal::Stop {
            let stopped = wait::poll_blocking(STOP_DEADLINE, || all_threads_stopped(self.id));
            assert!(stopped, "did not stop{}", self.report());
        }
    }

    /// How the process ended, if it has.
    pub fn try_exit(&self) -> Option<ExitStatus> {
        self.state.lock().unwrap().try_exit()
    }

    /// Waits for the process to end by itself.
    ///
    /// Panics with the output so far when the deadline passes.
    pub async fn wait_exit(&self, deadline: Duration) -> ExitStatus {
        let status = wait::poll(deadline, async || self.try_exit()).await;
        status.unwrap_or_else(|| panic!("did not end within {deadline:?}{}", self.report()))
    }

    /// What a message about this process should show.
    pub(crate) fn report(&self) -> String {
        format!(
            "\n--- {} ({})\n--- its standard output:\n{}--- its standard error:\n{}---",
            self.program.display(),
            self.id,
            self.stdout(),
            self.stderr(),
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if state.try_exit().is_none() {
            self.stop_signal.stop(self.id);
            // A stopped process has to be woken up to obey.
            Signal::Cont.send_to_group(self.id);
            if !wait::poll_blocking(STOP_DEADLINE, || state.try_exit().is_some()) {
                Signal::Kill.send_to_group(self.id);
                let _ = state.child.wait();
            }
        }
        if let Some(watcher) = state.watcher.take() {
            watcher.release();
        }
    }
}

fn read(file: &Path) -> String {
    let bytes = std::fs::read(file).expect("read the output file");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether the system shows every thread as stopped. Where it does not tell (no `/proc`), the
/// signal's delivery has to do.
fn all_threads_stopped(id: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{id}/task")) else {
        return true;
    };
    threads.flatten().all(|thread| {
        // `17 (name of the program) T …`; the name may itself contain parentheses.
        let line = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        line.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['T', 'Z', 'X']))
    })
}
