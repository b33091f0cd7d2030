//! Panics that tests ask for. A release knows nothing of it.
//!
//! A process that is started with `PANIC_WHEN_TOLD=DIRECTORY` has the task panic whose name a file in
//! that directory has, once: the file is removed.

/// The work, unless its task is told to panic.
#[cfg(not(debug_assertions))]
pub(crate) async fn unless<T>(_task: &'static str, work: impl Future<Output = T>) -> T {
    work.await
}

#[cfg(debug_assertions)]
pub(crate) use in_tests::unless;

#[cfg(debug_assertions)]
mod in_tests {
    use std::path::{Path, PathBuf};
    use std::sync::OnceLock;
    use std::time::Duration;

    const LOOKS_EVERY: Duration = Duration::from_millis(50);

    /// The work, unless its task is told to panic.
    pub(crate) async fn unless<T>(task: &'static str, work: impl Future<Output = T>) -> T {
        static DIRECTORY: OnceLock<Option<PathBuf>> = OnceLock::new();
        let from_environment = || std::env::var_os("PANIC_WHEN_TOLD").map(PathBuf::from);
        match DIRECTORY.get_or_init(from_environment) {
            None => work.await,
            Some(directory) => tokio::select! {
                biased;
                () = told(directory, task) => std::panic::panic_any("told to by a test"),
                output = work => output,
            },
        }
    }

    async fn told(directory: &Path, task: &'static str) {
        while std::fs::remove_file(directory.join(task)).is_err() {
            tokio::time::sleep(LOOKS_EVERY).await;
        }
    }
}
