//! How many files the process may have open, which is how many connections it can have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For the database, endpoints and other nodes, and for the files of the process itself.
const RESERVED: u64 = 256;

/// Raises what the system allows as far as the process may, and says how many of the connections that
/// are wanted there is room for.
pub(super) fn room_for(wanted: usize) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::debug!(%error, "the number of open files cannot be raised");
    }
    let Some(files) = getrlimit(Resource::Nofile).current else { return wanted };
    let room = left(files);
    if room < wanted {
        tracing::warn!(
            files,
            connections = room,
            "the system allows too few open files for server.limits.connections: raise them with ulimit -n"
        );
    }
    wanted.min(room)
}

/// What is left of so many files: at least half.
fn left(files: u64) -> usize {
    usize::try_from(files.saturating_sub(RESERVED).max(files / 2)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::left;

    #[test]
    fn some_files_are_for_other_things() {
        for (files, connections) in [(1024, 768), (256, 128), (100, 50), (1_048_576, 1_048_320)] {
            assert_eq!(left(files), connections);
        }
    }
}
