//! A process: its environment, output, signals and end.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::os::unix::process::ExitStatusExt;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::time::Duration;

use futures::FutureExt;
use testkit::{DEADLINE, Launch, Process, Signal};

const SHELL: &str = "/bin/sh";

/// Runs a line of shell.
fn shell(line: &str) -> Process {
    Process::start(SHELL, &["-c", line], &[])
}

#[tokio::test]
async fn the_environment_is_path_and_what_was_given() {
    let env = testkit::programs::on_path("env").expect("the command env");
    let process = Process::start(env, &[], &[("A", "1"), ("B", "with space"), ("A", "2")]);
    assert!(process.wait_exit(DEADLINE).await.success());
    let output = process.stdout();
    let mut names: Vec<_> = output.lines().map(|line| line.split_once('=').unwrap()).collect();
    names.sort_unstable();
    let path = std::env::var("PATH").unwrap();
    assert_eq!(names, [("A", "2"), ("B", "with space"), ("PATH", &path)]);
}

#[tokio::test]
async fn output_can_be_read_while_it_runs() {
    let process = shell("echo out; echo err >&2; exec sleep 60");
    let line = process.wait_for_line(|line| line == "err", DEADLINE).await;
    assert_eq!(line, "err");
    assert_eq!((process.stdout().as_str(), process.stderr().as_str()), ("out\n", "err\n"));
    assert_eq!(process.try_exit(), None);
}

#[tokio::test]
async fn a_missing_line_is_reported_with_the_output() {
    let process = shell("echo something else; exec sleep 60");
    process.wait_for_line(|line| line == "something else", DEADLINE).await;
    let message = panic_of(process.wait_for_line(|_| false, Duration::from_millis(50))).await;
    assert!(message.contains("something else"), "{message}");
}

#[tokio::test]
async fn the_last_words_of_a_process_are_found_and_its_end_ends_the_wait() {
    let process = shell("echo last words; exit 3");
    process.wait_for_line(|line| line == "last words", DEADLINE).await;
    let message = panic_of(process.wait_for_line(|_| false, DEADLINE)).await;
    assert!(message.contains("exit status: 3"), "{message}");
}

#[tokio::test]
async fn a_process_that_does_not_end_is_reported() {
    let message = panic_of(shell("exec sleep 60").wait_exit(Duration::from_millis(50))).await;
    assert!(message.contains("did not end within 50ms"), "{message}");
}

#[tokio::test]
async fn signals_arrive_with_their_usual_effect() {
    for (signal, number) in [(Signal::Int, 2), (Signal::Term, 15), (Signal::Kill, 9)] {
        // Whoever runs the tests in the background may have them ignore interrupts.
        let process = shell("exec env --default-signal=INT sh -c 'echo up; exec sleep 60'");
        process.wait_for_line(|line| line == "up", DEADLINE).await;
        process.signal(signal);
        assert_eq!(process.wait_exit(DEADLINE).await.signal(), Some(number), "{signal:?}");
    }
}

#[tokio::test]
async fn a_stopped_process_does_nothing_until_it_continues() {
    let process = shell("while :; do echo tick; done");
    process.wait_for_line(|line| line == "tick", DEADLINE).await;
    process.signal(Signal::Stop);
    let before = process.stdout().len();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(process.stdout().len(), before, "it ran on");
    process.signal(Signal::Cont);
    testkit::eventually("another tick", async || (process.stdout().len() > before).then_some(()))
        .await;
}

#[tokio::test]
async fn a_dropped_process_is_gone_with_its_children_and_its_directory() {
    let process = shell("sleep 60 & echo $!; wait");
    let child = process.wait_for_line(|line| !line.is_empty(), DEADLINE).await;
    let (id, directory) = (process.id().to_string(), process.directory().to_owned());
    assert!(is_running(&id) && is_running(&child) && directory.exists());
    // Dropped while stopped, which is when a polite signal would be of no use.
    process.signal(Signal::Stop);
    drop(process);
    assert!(!is_running(&id) && !directory.exists());
    testkit::eventually("the end of the child", async || (!is_running(&child)).then_some(())).await;
}

#[tokio::test]
async fn it_starts_in_a_directory_of_its_own_or_where_it_is_told() {
    let process = shell("pwd -P");
    process.wait_exit(DEADLINE).await;
    let own = process.directory().canonicalize().unwrap();
    assert_eq!(Path::new(process.stdout().trim()), own);

    let process = Launch::new(SHELL).args(["-c", "pwd -P"]).current_directory("/").start();
    process.wait_exit(DEADLINE).await;
    assert_eq!(process.stdout(), "/\n");
}

#[test]
#[should_panic(expected = "there is no program at /no/such/program")]
fn a_missing_program_is_named() {
    Process::start("/no/such/program", &[], &[]);
}

/// The message of the panic in which this ends.
async fn panic_of<T>(future: impl Future<Output = T>) -> String {
    match AssertUnwindSafe(future).catch_unwind().await {
        Ok(_) => panic!("did not panic"),
        Err(panic) => panic.downcast_ref::<String>().expect("a message").clone(),
    }
}

/// Whether a process runs; one that has ended and only waits to be reaped does not.
fn is_running(id: &str) -> bool {
    let line = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    line.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}
