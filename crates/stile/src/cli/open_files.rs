//! How many files the process may have open, which is how many connections it can have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use stile_server::Limits;

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

/// What callers may take of a server, as far as the process may have files open.
pub(super) fn fit(limits: Limits) -> Limits {
    within(limits, room_for(limits.connections))
}

/// Where there is less room than was asked for, one address still cannot take all of it.
fn within(mut limits: Limits, room: usize) -> Limits {
    if room < limits.connections {
        limits.connections = room;
        limits.connections_per_address = limits.connections_per_address.min((room / 2).max(1));
    }
    limits
}

/// What is left of so many files: at least half.
fn left(files: u64) -> usize {
    usize::try_from(files.saturating_sub(RESERVED).max(files / 2)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::{left, within};
    use stile_server::Limits;

    #[test]
    fn some_files_are_for_other_things() {
        for (files, connections) in [(1024, 768), (256, 128), (100, 50), (1_048_576, 1_048_320)] {
            assert_eq!(left(files), connections);
        }
    }

    #[test]
    fn hole_45_where_there_is_little_room_one_address_cannot_take_all() {
        for (wanted, room, fits) in [
            ((8192, 4096), 8192, (8192, 4096)),
            ((8192, 4096), 100_000, (8192, 4096)),
            // Whoever has enough files has what they asked for.
            ((8192, 8192), 8192, (8192, 8192)),
            ((8192, 4096), 768, (768, 384)),
            ((8192, 100), 768, (768, 100)),
            ((8192, 4096), 1, (1, 1)),
        ] {
            let (connections, connections_per_address) = wanted;
            let limits = Limits { connections, connections_per_address, ..Limits::default() };
            let limits = within(limits, room);
            assert_eq!((limits.connections, limits.connections_per_address), fits, "{wanted:?}");
        }
    }
}
