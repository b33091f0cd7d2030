//! Whether this file is the one that was served here last, and lanes of one that is not.
//!
//! A stamp is kept in the database and in a small file beside it, and both are made anew at each
//! start and each orderly end. If they differ, an older copy of the database was put back.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;
use stile_domain::{Lane, LaneEventKind, NodeId, Remembered};
use uuid::Uuid;

use super::fence::{Fenced, fence};
use super::rows;
use super::stream::LaneEntry;
use crate::lane_entries::realigned_data;
use crate::{Claim, FencingToken, Realigned, Refusal, StoreError};

/// The one history there is.
pub(super) const HERE: &str = "file";

/// The stamp beside the database; `None` if there is none.
pub(super) fn beside(database: &Path) -> Option<String> {
    std::fs::read_to_string(file(database)).ok()
}

pub(super) fn put_beside(database: &Path, stamp: &str) -> Result<(), StoreError> {
    let path = file(database);
    std::fs::write(&path, stamp)
        .map_err(|e| StoreError::Unavailable(format!("cannot write {}: {e}", path.display())))
}

fn file(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(".origin");
    PathBuf::from(path)
}

/// Puts a new stamp into the database. Answers with it and with the lanes that come from an older
/// copy, if this is one: none of them gives out anything before it is held against its chain.
pub(super) fn arrive(
    connection: &Connection,
    beside: Option<&str>,
) -> Result<(String, Vec<Lane>), StoreError> {
    let known: Option<String> = connection
        .prepare_cached("SELECT place FROM origin")?
        .query_row([], |row| row.get(0))
        .optional()?;
    let older = known.is_some() && known.as_deref() != beside;
    let unaligned = if older {
        let mut statement = connection
            .prepare_cached("UPDATE lane SET timeline = NULL RETURNING chain_id, signer")?;
        let lanes = statement.query_map([], rows::lane)?;
        lanes.collect::<Result<_, _>>()?
    } else {
        Vec::new()
    };
    let stamp = Uuid::now_v7().to_string();
    connection
        .prepare_cached("INSERT OR REPLACE INTO origin (one, place) VALUES (1, ?1)")?
        .execute(params![stamp])?;
    Ok((stamp, unaligned))
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
        };
        connection
            .prepare_cached(
                "UPDATE lane SET next_nonce = ?3, fencing_token = ?4, timeline = ?5
                 WHERE chain_id = ?1 AND signer = ?2",
            )?
            .execute(params![
                rows::chain(lane),
                lane.signer.as_slice(),
                realigned.to.cast_signed(),
                realigned.token.0,
                HERE
            ])?;
        let entry = LaneEntry {
            lane,
            kind: LaneEventKind::Realigned,
            node,
            token: Some(realigned.token),
            data: &realigned_data(data, &realigned, remembered, (None, HERE)),
            now: self.now(),
        };
        entry.write(connection)?;
        Ok(Some(realigned))
    }
}
