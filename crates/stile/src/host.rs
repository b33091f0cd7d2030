//! What the process asks of the machine before it reads anything secret.
//!
//! | what | why |
//! |---|---|
//! | no core dumps, not dumpable | a crash must not write keys to a disk, and no other process of the same user reads our memory |
//! | what is made is for its owner alone | databases, stamps and everything beside them |
//! | loose key files are refused | whoever reads a key moves funds |

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, geteuid, setrlimit, umask};

/// Keeps this process's memory to itself: no core dumps, and nobody of the same user looks in. To be
/// called before anything secret is read. What the machine does not grant is said, and no reason to
/// stop.
pub(crate) fn keep_memory_private() {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    if let Err(error) = setrlimit(Resource::Core, none) {
        eprintln!("warning: core dumps cannot be turned off: {error}");
    }
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
            eprintln!("warning: the process stays dumpable: {error}");
        }
    }
}

/// Files that are made from now on are for their owner alone, and so are directories.
pub(crate) fn keep_files_private() {
    umask(Mode::RWXG | Mode::RWXO);
}

/// Refuses a file with a secret in it that others can read or change, and says what to do.
///
/// A file of our own is for nobody else. One of another owner, such as root's where an orchestrator
/// puts secrets, is usually read as a member of its group, so the group may read it.
pub(crate) fn check_private(path: &Path, found: &Metadata) -> Result<(), String> {
    let ours = found.uid() == geteuid().as_raw();
    let (mode, allowed) = (found.mode() & 0o777, allowed(ours));
    if mode & !allowed == 0 {
        return Ok(());
    }
    Err(format!(
        "others can get at {}, which has a secret in it (its mode is {mode:04o}): run chmod {:o} {}",
        path.display(),
        mode & allowed & 0o660,
        path.display(),
    ))
}

/// The most that the mode of a file with a secret may be.
fn allowed(ours: bool) -> u32 {
    if ours { 0o700 } else { 0o740 }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_the_owner_may_read_a_secret_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        std::fs::write(&path, "secret").unwrap();
        for (mode, refused) in [
            (0o600, None),
            (0o400, None),
            (0o700, None),
            (0o640, Some("chmod 600")),
            (0o644, Some("chmod 600")),
            (0o604, Some("chmod 600")),
            (0o602, Some("chmod 600")),
            (0o444, Some("chmod 400")),
        ] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            let checked = check_private(&path, &std::fs::metadata(&path).unwrap());
            match refused {
                None => assert_eq!(checked, Ok(()), "{mode:o}"),
                Some(words) => {
                    let said = checked.unwrap_err();
                    assert!(said.ends_with(&format!("{words} {}", path.display())), "{said}");
                }
            }
        }
        assert_eq!(allowed(false), 0o740, "a secret that an orchestrator gives to our group");
    }
}
