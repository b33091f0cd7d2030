//! Nothing outlives a test process, even one that is killed.
//!
//! The test starts this same test binary again as its victim, which starts one of everything and
//! says which directories to look at. Every program that testkit starts runs in such a directory,
//! so whoever is left behind is found by where it runs.

#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, reason = "the victim tells its test where to look")]

use std::path::{Path, PathBuf};

use testkit::{Anvil, AnvilOptions, DEADLINE, Postgres, Process, Redis, Signal, eventually};
use tokio_postgres::NoTls;

const VICTIM: &str = "TESTKIT_VICTIM";

/// Not a test of its own: does nothing unless a test below starts it.
#[tokio::test]
async fn victim() {
    let Ok(fate) = std::env::var(VICTIM) else {
        return;
    };
    let postgres = Postgres::shared().await;
    let own_postgres = Postgres::start(&[]).await;
    // A server with a client has a process more to leave behind.
    let (_client, connection) =
        tokio_postgres::connect(&postgres.database().await, NoTls).await.expect("connect");
    tokio::spawn(connection);
    let anvil = Anvil::start(AnvilOptions::default()).await;
    let redis = Redis::start().await;
    let frozen = Process::start("/bin/sh", &["-c", "sleep 600 & wait"], &[]);
    frozen.signal(Signal::Stop);
    let ended = Process::start("/bin/sh", &["-c", "exit 0"], &[]);
    ended.wait_exit(DEADLINE).await;
    for directory in [
        postgres.directory(),
        own_postgres.directory(),
        anvil.process().directory(),
        redis.process().directory(),
        frozen.directory(),
        ended.directory(),
    ] {
        println!("directory {}", directory.display());
    }
    println!("all is up");
    match fate.as_str() {
        "exits" => std::process::exit(0),
        _ => std::future::pending().await,
    }
}

/// Starts the victim and waits until it has started everything, which is a good deal and may take
/// its time; returns its directories.
async fn start_victim(fate: &str) -> (Process, Vec<PathBuf>) {
    let this = std::env::current_exe().expect("the path of this test");
    let arguments = ["--exact", "victim", "--nocapture"];
    let mut environment = vec![(VICTIM, fate)];
    let anvil = testkit::programs::anvil().display().to_string();
    environment.push((testkit::programs::ANVIL_VARIABLE, &anvil));
    let victim = Process::start(this, &arguments, &environment);
    victim.wait_for_line(|line| line == "all is up", DEADLINE * 2).await;
    let output = victim.stdout();
    let directories = output.lines().filter_map(|line| line.split_once("directory "));
    let directories: Vec<_> = directories.map(|(_, path)| PathBuf::from(path)).collect();
    assert_eq!(directories.len(), 6, "{output}");
    (victim, directories)
}

async fn assert_nothing_is_left(directories: &[PathBuf]) {
    for directory in directories {
        let what = format!("the end of everything in {}", directory.display());
        eventually(&what, async || {
            (processes_in(directory).is_empty() && !directory.exists()).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_killed_test_process_leaves_nothing_behind() {
    let (victim, directories) = start_victim("is killed").await;
    let postgres = processes_in(&directories[0]);
    assert!(postgres.len() > 1, "the server and its children are found: {postgres:?}");
    victim.signal(Signal::Kill);
    victim.wait_exit(DEADLINE).await;
    assert_nothing_is_left(&directories).await;
}

#[tokio::test]
async fn a_test_process_that_exits_leaves_nothing_behind() {
    let (_victim, directories) = start_victim("exits").await;
    assert_nothing_is_left(&directories).await;
}

/// The processes whose current directory is there, or was there before it was removed.
fn processes_in(directory: &Path) -> Vec<PathBuf> {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let current_directory = |process: &PathBuf| std::fs::read_link(process.join("cwd"));
    processes
        .map(|entry| entry.path())
        .filter(|process| {
            current_directory(process).is_ok_and(|current| {
                current
                    .as_os_str()
                    .as_encoded_bytes()
                    .starts_with(directory.as_os_str().as_encoded_bytes())
            })
        })
        .collect()
}
