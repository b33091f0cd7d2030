//! Two sessions on PostgreSQL, one of which waits for the other.

use testkit::eventually;

use super::Raw;

/// Sessions of the store's, on this database, that wait for a lock.
const BLOCKED: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'stile' AND wait_event_type = 'Lock'";

/// Until so many of the store's sessions wait for somebody's lock. To be asked on a connection that
/// has no transaction open: inside one, PostgreSQL keeps giving the first answer.
pub(crate) async fn wait_until_blocked(raw: &Raw, count: usize) {
    eventually("a session that waits for a lock", async || {
        is_blocked(raw, count).await.then_some(())
    })
    .await;
}

/// Whether so many of the store's sessions wait for somebody's lock.
pub(crate) async fn is_blocked(raw: &Raw, count: usize) -> bool {
    raw.value(BLOCKED).await == count.to_string()
}
