//! Signals to processes.

use std::process::{Command, Stdio};

/// A signal that tests send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Freezes the process where it stands: the pause of a machine, a debugger, a long collection.
    Stop,
    /// Lets a frozen process go on.
    Cont,
    /// Asks the process to end.
    Term,
    /// Ends the process without a word.
    Kill,
    /// What Ctrl-C sends.
    Int,
    /// What PostgreSQL takes for an immediate shutdown.
    Quit,
    /// A crash, which leaves a core file where those are allowed.
    Abort,
}

impl Signal {
    /// The name that `kill -s` takes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stop => "STOP",
            Self::Cont => "CONT",
            Self::Term => "TERM",
            Self::Kill => "KILL",
            Self::Int => "INT",
            Self::Quit => "QUIT",
            Self::Abort => "ABRT",
        }
    }

    /// Sends the signal to a process; false if there is none (any more).
    ///
    /// By the shell's own `kill`, since the system call would need `unsafe` and not every machine
    /// has the command.
    pub(crate) fn send(self, process_id: u32) -> bool {
        self.send_to(process_id.to_string())
    }

    /// Sends the signal to every process of a group; false if there is none (any more).
    pub(crate) fn send_to_group(self, leader_id: u32) -> bool {
        self.send_to(format!("-{leader_id}"))
    }

    /// Sends the signal as an order to end; false if there is nobody (any more) to obey it.
    pub(crate) fn stop(self, leader_id: u32) -> bool {
        self.send_to(self.stop_target(leader_id))
    }

    /// Whom this signal has to reach so that a process and its children end, as `kill` takes it.
    ///
    /// A killed leader ends nobody, so everybody has to be killed. Any other signal is for the
    /// leader alone: PostgreSQL and `initdb` end their children in good order, and leave shared
    /// memory behind if something else does.
    pub(crate) fn stop_target(self, leader_id: u32) -> String {
        match self {
            Self::Kill => format!("-{leader_id}"),
            _ => leader_id.to_string(),
        }
    }

    fn send_to(self, target: String) -> bool {
        Command::new("/bin/sh")
            .args(["-c", r#"kill -s "$1" -- "$2""#, "sh", self.name(), &target])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("run /bin/sh")
            .success()
    }
}
