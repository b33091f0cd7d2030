//! Whether this file is the one that was served here last, and lanes of one that is not.
//!
//! A stamp is kept in the database and in a small file beside it. Both are made anew at each start, at
//! each orderly end, and with each heartbeat after which nonces were given out. If they differ, an
//! older copy of the database was put back. So that a copy of the file alone has a stamp, the log
//! (`-wal`) is folded into the file at each start.
//!
//! SQLite replays a log onto whatever file it finds beside it. So the file by itself, and the file with
//! its log, must name the same start of a server.

use std::io::{ErrorKind, Write};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};
use serde_json::Value;
use stile_domain::{
    HistoryChange, HoldId, Lane, LaneEventKind, NodeId, Nonce, REMEMBERED, Remembered,
};
use tracing::warn;
use uuid::Uuid;

use super::fence::{Fenced, fence};
use super::stream::{self, LaneEntry};
use super::{private, rows};
use crate::lane_entries::realigned_data;
use crate::{Claim, FencingToken, Realigned, Refusal, StoreError};

/// The one history there is.
pub(super) const HERE: &str = "file";

/// The stamp beside the database; `None` if there is none.
pub(super) fn beside(database: &Path) -> Option<String> {
    std::fs::read_to_string(file(database)).ok()
}

/// Writes stamps beside the database, one a line, all of them or none, whatever crashes.
pub(super) fn put_beside(database: &Path, stamps: &str) -> Result<(), StoreError> {
    let path = file(database);
    let write = || {
        let anew = path.with_extension("origin-anew");
        // One that a crash has left may be open to others, by an earlier version.
        match std::fs::remove_file(&anew) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = std::fs::File::options();
        let mut file = options.write(true).create_new(true).mode(private::MODE).open(&anew)?;
        file.write_all(stamps.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&anew, &path)?;
        // Not lost by a power failure that the database outlives.
        match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => std::fs::File::open(parent)?.sync_all(),
            None => std::fs::File::open(".")?.sync_all(),
        }
    };
    write().map_err(|e| StoreError::Unavailable(format!("cannot write {}: {e}", path.display())))
}

/// Whether one of the stamps beside the database is this one. There are two while a new one is being
/// put into the database: a process that dies then must not be taken for an older copy.
fn is_beside(beside: Option<&str>, stamp: &str) -> bool {
    beside.is_some_and(|stamps| stamps.lines().any(|line| line == stamp))
}

/// Whether a server has been here: with a stamp from before the one that is being put.
fn is_known_place(beside: Option<&str>) -> bool {
    beside.and_then(|stamps| stamps.lines().next()).is_some_and(|first| !first.is_empty())
}

fn file(database: &Path) -> PathBuf {
    named(database, ".origin")
}

fn named(database: &Path, end: &str) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(end);
    PathBuf::from(path)
}

/// Which start of a server wrote a database, and which one before it while its log is not folded.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    now: String,
    before: Option<String>,
}

impl Run {
    /// As a database says; `None` if it does not say.
    fn read(connection: &Connection) -> Option<Self> {
        let row = connection.query_row("SELECT run, run_before FROM origin", [], |row| {
            Ok((row.get::<_, Option<String>>(0)?, row.get(1)?))
        });
        let (now, before) = row.ok()?;
        Some(Self { now: now?, before })
    }

    /// Whether a file that names `alone` can be what this log was begun on.
    fn continues(&self, alone: &Self) -> bool {
        self.now == alone.now || self.before.as_ref() == Some(&alone.now)
    }
}

/// A look at a database that changes nothing, with a parameter of SQLite's file names.
fn look(database: &Path, parameter: &str) -> Option<Connection> {
    let escaped = database.to_str()?.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let uri = format!("file:{escaped}?{parameter}");
    let connection = Connection::open_with_flags(uri, flags).ok()?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).ok()?;
    Some(connection)
}

/// Refuses a file with the log of another one beside it: SQLite would make a mixture of the two. There is
/// a log only where a server did not come to an orderly end.
pub(super) fn check_log(database: &Path) -> Result<(), StoreError> {
    let log = named(database, "-wal");
    if std::fs::metadata(&log).map_or(0, |found| found.len()) == 0 {
        return Ok(());
    }
    let refused = |why: &str| {
        let (file, log, index) = (database.display(), log.display(), named(database, "-shm"));
        StoreError::Unavailable(format!(
            "{log} is not the log of {file} ({why}): a copy was put in the place of a database whose log was left beside \
             it, or the file is damaged. Nothing has been changed. To serve the copy, remove {log} and {} and start \
             again",
            index.display()
        ))
    };
    // Without its log the file may be anything: only what can be read of it counts.
    let alone = look(database, "immutable=1").and_then(|connection| Run::read(&connection));
    let Some(with_log) = look(database, "mode=ro") else { return Ok(()) };
    let run = Run::read(&with_log);
    if let (Some(alone), Some(run)) = (alone, run)
        && !run.continues(&alone)
    {
        return Err(refused("they are from different starts of the server"));
    }
    match damage(&with_log) {
        Some(words) => Err(refused(&words)),
        None => Ok(()),
    }
}

/// What is wrong with a database, if anything is. What only its rules say is left to them.
fn damage(connection: &Connection) -> Option<String> {
    let checked = connection
        .pragma_update(None, "ignore_check_constraints", true)
        .and_then(|()| connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)));
    match checked {
        Ok(words) => Some(words).filter(|words: &String| words != "ok"),
        Err(error @ rusqlite::Error::SqliteFailure(failure, _))
            if matches!(failure.code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) =>
        {
            Some(error.to_string())
        }
        // Whatever else stands in the way is told by whoever opens it.
        Err(_) => None,
    }
}

/// Folds the log into the file. `false` if somebody was reading.
pub(super) fn fold(database: &Path) -> Result<bool, StoreError> {
    let connection = super::connect(database)?;
    let busy: i64 =
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    Ok(busy == 0)
}

/// The log has been folded since the server started.
pub(super) fn folded(connection: &Connection) -> Result<(), StoreError> {
    connection.prepare_cached("UPDATE origin SET run_before = NULL")?.execute([])?;
    Ok(())
}

/// A stamp that was never used.
pub(super) fn fresh_stamp() -> String {
    Uuid::now_v7().to_string()
}

/// Puts a new stamp into the database; `starts` with a server. Answers with the lanes that come from an
/// older copy, if this is one: none of them gives out anything before it is held against its chain.
pub(super) fn arrive(
    connection: &Connection,
    beside: Option<&str>,
    stamp: &str,
    starts: bool,
) -> Result<Vec<Lane>, StoreError> {
    let known: Option<String> = connection
        .prepare_cached("SELECT place FROM origin")?
        .query_row([], |row| row.get(0))
        .optional()?;
    let older = match &known {
        Some(known) => !is_beside(beside, known),
        // A database was served here, and this one is new, or from before there were stamps.
        None => is_known_place(beside),
    };
    let unaligned = if older {
        warn!(
            "this is not the database that was served here last: an older copy was put back, or the file was removed. \
             Nothing that may have been sent before is sent by itself"
        );
        stream::begin_history(connection)?;
        let mut statement = connection
            .prepare_cached("UPDATE lane SET timeline = NULL RETURNING chain_id, signer")?;
        let lanes = statement.query_map([], rows::lane)?;
        lanes.collect::<Result<_, _>>()?
    } else {
        Vec::new()
    };
    connection
        .prepare_cached(
            "INSERT INTO origin (one, place, run) VALUES (1, ?1, ?1)
             ON CONFLICT (one) DO UPDATE
             SET place = ?1, run = CASE WHEN ?2 THEN ?1 ELSE run END,
                 run_before = CASE WHEN ?2 THEN run ELSE run_before END",
        )?
        .execute(params![stamp, starts])?;
    Ok(unaligned)
}

pub(super) fn realign(
    connection: &Connection,
    node: &NodeId,
    claim: &Claim,
    remembered: &Remembered,
    data: &Value,
    lease: Duration,
) -> Result<Result<Option<Realigned>, Refusal>, StoreError> {
    match fence(connection, claim, None, lease)? {
        Ok(fenced) => fenced.realign(node, remembered, data).map(Ok),
        Err(refusal) => Ok(Err(refusal)),
    }
}

impl Fenced<'_> {
    /// Makes a lane that passed part of this history.
    fn realign(
        &self,
        node: &NodeId,
        remembered: &Remembered,
        data: &Value,
    ) -> Result<Option<Realigned>, StoreError> {
        let (connection, claim) = (self.connection(), self.claim());
        let lane = claim.lane;
        let key = params![rows::chain(lane), lane.signer.as_slice()];
        let (cursor, before, highest): (Option<i64>, Option<String>, Option<i64>) = connection
            .prepare_cached(
                "SELECT next_nonce, timeline,
                        (SELECT max(nonce) FROM nonce WHERE chain_id = ?1 AND signer = ?2)
                 FROM lane WHERE chain_id = ?1 AND signer = ?2",
            )?
            .query_row(key, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let Some(cursor) = cursor.filter(|_| before.is_none()) else { return Ok(None) };
        let realigned = Realigned {
            from: Some(rows::nonce(cursor)),
            to: remembered.cursor(rows::nonce(cursor), highest.map(rows::nonce)),
            token: FencingToken(remembered.token_above(claim.token.get()).cast_signed()),
            // An older file was put back: whatever the operator says about failovers.
            restored: HistoryChange::Copy.may_lose(remembered.failover),
            bound_again: 0,
        };
        connection
            .prepare_cached(
                "UPDATE lane
                 SET next_nonce = ?3, fencing_token = ?4, timeline = ?5,
                     restored_at = CASE WHEN ?6 THEN ?7 ELSE restored_at END,
                     restored_number = restored_number + ?6,
                     restored_begun = restored_begun AND (NOT ?6 OR restore_settled_at IS NULL),
                     restored_from = CASE WHEN NOT ?6 THEN restored_from
                                          WHEN restore_settled_at IS NULL
                                              THEN min(coalesce(restored_from, next_nonce), next_nonce)
                                          ELSE next_nonce END,
                     restored_to = CASE WHEN ?6 OR (restored_at IS NOT NULL AND restore_settled_at IS NULL)
                                        THEN ?3 ELSE restored_to END,
                     restore_settled_at = CASE WHEN NOT ?6 THEN restore_settled_at END
                 WHERE chain_id = ?1 AND signer = ?2",
            )?
            .execute(params![
                rows::chain(lane),
                lane.signer.as_slice(),
                realigned.to.cast_signed(),
                realigned.token.0,
                HERE,
                realigned.restored,
                self.now(),
            ])?;
        self.keep_remembered(
            remembered.only_remembered(rows::nonce(cursor), highest.map(rows::nonce)),
            realigned.token,
        )?;
        let entry = LaneEntry {
            lane,
            kind: LaneEventKind::Realigned,
            node,
            token: Some(realigned.token),
            data: &realigned_data(data, &realigned, remembered, (None, HERE), HERE),
            now: self.now(),
        };
        entry.write(connection)?;
        Ok(Some(realigned))
    }

    /// Puts nonces on record that only this node remembers to have given out, in the hands of silent
    /// callers: nobody gets them again before the chain or a person has settled them.
    fn keep_remembered(&self, nonces: Range<Nonce>, token: FencingToken) -> Result<(), StoreError> {
        let lane = self.claim().lane;
        for nonce in nonces {
            self.connection()
                .prepare_cached(
                    "INSERT INTO nonce (chain_id, signer, nonce, owner_kind, owner_id, status,
                                        locked_until, reason, fencing_token, created_at, updated_at)
                     VALUES (?1, ?2, ?3, 'hold', ?4, 'SUSPECT', ?5, ?6, ?7, ?5, ?5)",
                )?
                .execute(params![
                    rows::chain(lane),
                    lane.signer.as_slice(),
                    nonce.cast_signed(),
                    HoldId::fresh().0,
                    self.now(),
                    REMEMBERED,
                    token.0,
                ])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn hole_47_a_stamp_that_a_crash_left_is_for_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("stile.db");
        let left = file(&database).with_extension("origin-anew");
        std::fs::write(&left, "half").unwrap();
        std::fs::set_permissions(&left, std::fs::Permissions::from_mode(0o644)).unwrap();
        put_beside(&database, "one\n").unwrap();
        assert_eq!(beside(&database).as_deref(), Some("one\n"));
        let mode = std::fs::metadata(file(&database)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!left.exists());
        put_beside(&database, "two\n").unwrap();
        assert_eq!(beside(&database).as_deref(), Some("two\n"));
    }
}
