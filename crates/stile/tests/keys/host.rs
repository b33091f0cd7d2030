//! What the machine is asked to keep: files for their owner alone, memory that nobody reads.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use testkit::{DEADLINE, Launch};

use crate::common::{CHAIN, Finished, SIGNER, run, run_in};
use crate::support::Backend;

fn mode(path: &Path) -> u32 {
    let found = std::fs::metadata(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    found.permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn hole_47_what_stile_writes_is_for_its_owner_alone() {
    let backend = Backend::sqlite();
    let beside = |end: &str| {
        let mut path = backend.file().into_os_string();
        path.push(end);
        std::path::PathBuf::from(path)
    };
    let node = backend.node().start().await;
    for end in ["", "-wal", "-shm", ".lock", ".origin"] {
        assert_eq!(mode(&beside(end)), 0o600, "stile.db{end}");
    }
    // What an earlier version made, or a copy brought back, is made tight.
    node.terminate().await;
    for end in ["", ".lock", ".origin"] {
        set_mode(&beside(end), 0o644);
    }
    let _node = backend.node().start().await;
    for end in ["", "-wal", "-shm", ".lock", ".origin"] {
        assert_eq!(mode(&beside(end)), 0o600, "stile.db{end}, which was loose");
    }

    // The whole state of a development chain and its store.
    let place = tempfile::tempdir().unwrap();
    set_mode(place.path(), 0o755);
    run_in(place.path(), &["dev", "--once", "--listen", "127.0.0.1:0"]).await.ok();
    let mut found = 0;
    let mut directories = vec![place.path().to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            found += 1;
            if path.is_dir() {
                assert_eq!(mode(&path), 0o700, "{}", path.display());
                directories.push(path);
            } else {
                assert_eq!(mode(&path), 0o600, "{}", path.display());
            }
        }
    }
    assert!(found > 2, "there is a store and a chain");
}

/// Every file that a configuration names for a secret.
#[tokio::test]
async fn hole_47_a_key_file_that_others_can_read_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let secret = directory.path().join("secret");
    std::fs::write(&secret, "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80\n")
        .unwrap();
    let chain = format!("[nonce.chain_query]\nenabled = false\n[[chain]]\nid = {CHAIN}\n");
    let file = format!("\"file:{}\"", secret.display());
    let store = format!("[store]\nurl = \"sqlite://{}/s.db\"\n", directory.path().display());
    for (what, configuration) in [
        ("signer[0]: key", format!("{chain}[[signer]]\nkey = {file}\n")),
        (
            "signer[0]: keystore",
            format!(
                "{chain}[[signer]]\nkeystore = \"{}\"\naddress = \"{SIGNER}\"\n",
                secret.display()
            ),
        ),
        (
            "signer[0]: password",
            format!("{chain}[[signer]]\nkeystore = \"k\"\npassword = {file}\n"),
        ),
        ("cluster.secret", format!("[cluster]\nsecret = {file}\n")),
        ("redis.password", format!("[redis]\nurl = \"redis://127.0.0.1:1\"\npassword = {file}\n")),
    ] {
        let path = directory.path().join("stile.toml");
        std::fs::write(&path, format!("{store}{configuration}")).unwrap();
        let check = ["config", "check", "--config", path.to_str().unwrap()];
        let chmod = format!("run chmod 600 {}", secret.display());
        for (loose, is_refused) in [(0o644, true), (0o640, true), (0o602, true), (0o600, false)] {
            set_mode(&secret, loose);
            let checked = run(&check).await;
            let refused = checked.stderr.contains(&chmod) && checked.stderr.contains(what);
            assert_eq!(refused, is_refused, "{what} {loose:o}: {checked:?}");
        }
        assert!(!run(&check).await.stderr.contains("ac0974"), "and never shown");
    }
}

/// A process of the same user cannot look into a server's memory or its environment, where keys are.
#[tokio::test]
async fn hole_47_nobody_of_the_same_user_reads_its_memory() {
    const NOBODY: u32 = 65534;
    let directory = tempfile::tempdir().unwrap();
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    let setpriv = Path::new("/usr/bin/setpriv");
    if is_root && !setpriv.is_file() {
        eprintln!("skipped: root reads everything, and there is no setpriv to be somebody else");
        return;
    }
    let as_somebody = |program: &str| {
        if !is_root {
            return Launch::new(program);
        }
        let user = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
        Launch::new(setpriv).args(user).args(["--clear-groups", program])
    };
    if is_root {
        chown(directory.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    // A copy that somebody else can get at, wherever this one was built.
    let program = directory.path().join("stile");
    std::fs::copy(env!("CARGO_BIN_EXE_stile"), &program).unwrap();
    let store = format!("sqlite://{}/stile.db", directory.path().display());
    let node = as_somebody(program.to_str().unwrap())
        .arg("serve")
        .env("STILE__STORE__URL", store)
        .env("STILE__SERVER__LISTEN", "127.0.0.1:0")
        .env("SOME_KEY", "canary")
        .current_directory(directory.path())
        .start();
    node.wait_for_line(|line| line.contains("serving; "), DEADLINE).await;
    // That of a program which does not mind shows that the reader could.
    let other = as_somebody("/bin/sleep").arg("600").env("SOME_KEY", "canary").start();
    let read = async |id: u32, file: &str| {
        let path = format!("/proc/{id}/{file}");
        Finished::of(&as_somebody("/bin/cat").arg(path).start()).await
    };
    testkit::eventually("the other program to have begun", async || {
        read(other.id(), "environ").await.stdout.contains("canary").then_some(())
    })
    .await;
    for file in ["environ", "mem", "maps"] {
        let refused = read(node.id(), file).await;
        assert!(refused.stderr.contains("Permission denied"), "{file}: {refused:?}");
        assert!(!refused.stdout.contains("canary"), "{file}: {refused:?}");
    }
}
