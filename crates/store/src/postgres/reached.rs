//! How far this process has seen the database come.
//!
//! An older copy of the server's files, put back while nodes run, is the same database on the same
//! timeline: nothing in it tells. But what was answered stays: if the log of the server is shorter than
//! it was when a commit of this process was answered, commits are gone. The same tells a recovery from
//! an archive from the promotion of a standby that has every commit.
//!
//! A place in the log is read inside a transaction and counts once its commit is answered: then the
//! log up to there is on disk, and on the synchronous standby if there is one. So a crash, or a
//! failover to such a standby, never falls short of it. It is compared with every place that is read
//! later: by the fence of every write, by heartbeats, and on each new connection.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio_postgres::Row;
use tokio_postgres::types::PgLsn;
use tracing::warn;

use super::session::Sessions;
use crate::StoreError;

/// What every new connection is asked, besides whether it keeps commits. A standby has no place.
pub(super) const ASK: &str = "SELECT current_setting('synchronous_commit') AS durability, \
    CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_insert_lsn() END AS position, \
    CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END AS timeline";

/// A place in the server's log, and how often commits had been found to be gone when it was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Position {
    place: u64,
    epoch: u64,
}

/// Shared by all connections of a process.
#[derive(Debug, Default)]
pub(super) struct Reached(Mutex<Known>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Known {
    /// The timeline, once it has been asked for.
    timeline: Option<String>,
    /// What was written up to here was answered.
    reached: Position,
    /// How often commits were found to be gone, by anybody, as far as this process has heard.
    losses: Option<i64>,
    /// The database has not come as far as it had.
    behind: bool,
}

impl Known {
    /// A server answers that it is here, to a question asked when `before` was known.
    fn compare(&mut self, before: Position, place: u64, timeline: Option<&str>) {
        if before.epoch != self.reached.epoch {
            return;
        }
        // Timelines rise, and are written with eight digits.
        let earlier = timeline.is_some_and(|here| self.timeline.as_deref() > Some(here));
        if place < before.place || earlier {
            self.behind = true;
        }
        if let (Some(timeline), false) = (timeline, self.behind) {
            self.timeline = Some(timeline.to_owned());
        }
    }
}

impl Reached {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a server must have reached that is asked from now on.
    pub(super) fn so_far(&self) -> Position {
        self.known().reached
    }

    /// A transaction in which this place was read has been committed, and the answer has come.
    pub(super) fn answered(&self, position: Position) {
        let mut known = self.known();
        // A place of the history that is lost says nothing about the one that is left.
        if !known.behind && known.reached.epoch == position.epoch {
            known.reached.place = known.reached.place.max(position.place);
        }
    }

    /// What a transaction answers that was begun when `before` was known. `None`: commits are gone, as
    /// far as is known with this answer.
    pub(super) fn compare(&self, before: Position, row: Option<&Row>) -> Option<Position> {
        let place = row.map(|row| row.get::<_, PgLsn>("position").into());
        self.follows(before, place)
    }

    fn follows(&self, before: Position, place: Option<u64>) -> Option<Position> {
        let mut known = self.known();
        if let Some(place) = place {
            known.compare(before, place, None);
        }
        let place = place.unwrap_or(before.place);
        (!known.behind).then_some(Position { place, ..before })
    }

    /// What a new connection answered to [`ASK`].
    pub(super) fn connected(&self, before: Position, row: &Row) {
        if let (Some(place), Some(timeline)) =
            (row.get::<_, Option<PgLsn>>("position"), row.get::<_, Option<&str>>("timeline"))
        {
            self.known().compare(before, place.into(), Some(timeline));
        }
    }
}

/// Learns where the database is, at start: what was found before is somebody else's finding.
pub(super) async fn learn(sessions: &Sessions) -> Result<(), StoreError> {
    let sql = "SELECT o.losses FROM origin o";
    let found = sessions.read(sql, &[]).await?;
    let losses = found.first().map(|row| row.try_get("losses")).transpose()?;
    sessions.reached().known().losses = losses;
    Ok(())
}

/// Commits are gone: no lane that stands in the database as one of this history gives out anything
/// before it is held against its chain. If another node has found that out before, it is done.
pub(super) async fn note_loss(sessions: &Sessions) -> Result<(), StoreError> {
    let reached = sessions.reached();
    let Known { timeline, losses, reached: before, .. } = reached.known().clone();
    let row = write_loss(sessions, losses, timeline.as_deref()).await?;
    let here: PgLsn = row.try_get("position")?;
    let noted = row.try_get("noted")?;
    if noted {
        warn!(
            reached = %PgLsn::from(before.place),
            now = %here,
            lanes = row.try_get::<_, i64>("lanes")?,
            "the database has lost commits that this node has seen: an older copy was put in its place, or it was \
             recovered or failed over without them"
        );
    }
    let mut known = reached.known();
    // Another call may have done it meanwhile.
    if known.reached.epoch == before.epoch {
        *known = Known {
            timeline: row.try_get("timeline")?,
            // Where nothing was written, the answer says nothing about the log.
            reached: Position {
                place: if noted { here.into() } else { 0 },
                epoch: before.epoch + 1,
            },
            losses: row.try_get("losses")?,
            behind: false,
        };
    }
    Ok(())
}

/// Writes that commits are gone, unless somebody has since `losses`: first so that no lane is taken for
/// whole any more, then of those that were. Answers with what is known of it then.
pub(super) async fn write_loss(
    sessions: &Sessions,
    losses: Option<i64>,
    timeline: Option<&str>,
) -> Result<Row, StoreError> {
    sessions
        .within(StoreError::CommitUnknown, async {
            let (transaction, noted) =
                sessions.begin(include_str!("sql/note_loss.sql"), &[&losses]).await?;
            let noted: Option<i64> = noted.first().map(|row| row.try_get("losses")).transpose()?;
            let lanes = include_str!("sql/note_lost_lanes.sql");
            let mut found = transaction.query_and_commit(lanes, &[&timeline, &noted]).await?;
            found.pop().ok_or_else(|| StoreError::Internal("no answer".into()))
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(place: u64) -> Position {
        Position { place, epoch: 0 }
    }

    #[test]
    fn hole_20_a_shorter_log_or_an_earlier_timeline_is_another_history() {
        let one = Some("00000001");
        let two = Some("00000002");
        for (case, before, place, timeline, behind) in [
            ("further", at(100), 120, two, false),
            ("nothing was written", at(100), 100, two, false),
            ("a later timeline that has it all", at(100), 100, Some("0000000A"), false),
            ("a shorter log", at(100), 99, two, true),
            ("a later timeline that lacks some", at(100), 99, Some("00000003"), true),
            ("an earlier timeline, however long", at(100), 1000, one, true),
            ("the timeline was not asked for", at(100), 120, None, false),
            ("asked before a loss was noted", Position { place: 100, epoch: 7 }, 99, two, false),
        ] {
            let mut known = Known { timeline: two.map(str::to_owned), ..Known::default() };
            known.compare(before, place, timeline);
            assert_eq!(known.behind, behind, "{case}");
        }
    }

    #[test]
    fn hole_20_what_was_answered_in_a_lost_history_does_not_count_in_another() {
        let reached = Reached::default();
        reached.answered(at(100));
        reached.answered(at(90));
        assert_eq!(reached.so_far(), at(100));
        // An answer that was overtaken by another: it was asked before that one came.
        assert_eq!(reached.follows(at(80), Some(95)), Some(at(95)));
        assert_eq!(reached.follows(at(100), Some(95)), None);
        reached.answered(at(200));
        assert_eq!(reached.so_far(), at(100));
        assert_eq!(reached.follows(at(100), None), None, "until it is noted");
        let mut known = reached.known();
        *known = Known { reached: Position { place: 95, epoch: 1 }, ..Known::default() };
        drop(known);
        reached.answered(at(200));
        assert_eq!(reached.so_far(), Position { place: 95, epoch: 1 });
        assert!(reached.follows(at(100), Some(96)).is_some());
    }
}
