//! What ends a child when the test process dies.
//!
//! A `Drop` does not run when a test process is killed, and a `static` is never dropped at all. So
//! each child has a watcher: a `sh` that reads from a pipe whose other end only the test process
//! holds. The system closes that end however the process dies, and the watcher does what the
//! `Drop` would have done.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::signal::Signal;

/// `$1` the signal, `$2` whom to send it to, `$3` the process group, `$4` the directory; the pipe
/// brings what the test process still manages to say.
///
/// A stopped process has to be woken up to obey. One that does not obey within ten seconds is
/// killed; the directory goes in any case, as a zombie that nobody reaps looks alive for ever.
const SCRIPT: &str = r#"
trap '' INT HUP TERM QUIT
alive=yes
while read -r word; do
    case $word in
        ended) alive=no ;;
        released) exit 0 ;;
    esac
done
if [ "$alive" = yes ]; then
    kill -s "$1" -- "$2"
    kill -s CONT -- "-$3"
    tries=0
    while kill -s 0 -- "-$3" && [ "$tries" -lt 120 ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 100 ] || kill -s KILL -- "-$3"
        sleep 0.1
    done
fi
rm -rf -- "$4"
"#;

/// The watcher of one process group.
///
/// Dropped without [`Watcher::release`], it acts as if the test process had died.
#[derive(Debug)]
pub(crate) struct Watcher {
    shell: Child,
}

impl Watcher {
    /// From here on, this process's death stops the group of `leader_id` and removes `directory`.
    ///
    /// The watcher has a process group of its own, out of reach of Ctrl-C and of whatever kills
    /// the group of the test, and holds none of the test's output open.
    pub(crate) fn start(leader_id: u32, stop_signal: Signal, directory: &Path) -> Self {
        let shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "sh", stop_signal.name()])
            .args([stop_signal.stop_target(leader_id), leader_id.to_string()])
            .arg(directory)
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("start the watcher, /bin/sh");
        Self { shell }
    }

    /// The child has ended and was waited for, so its number may soon be somebody else's. The
    /// directory is still watched over.
    pub(crate) fn ended(&mut self) {
        self.say("ended\n");
    }

    /// Child and directory are taken care of: the watcher goes.
    pub(crate) fn release(mut self) {
        self.say("released\n");
        let _ = self.shell.wait();
    }

    fn say(&mut self, word: &str) {
        if let Some(pipe) = &mut self.shell.stdin {
            // A watcher that was killed cannot be told anything, and need not be.
            let _ = pipe.write_all(word.as_bytes());
        }
    }
}
