//! Two sessions on PostgreSQL, one of which waits for the other.

use testkit::eventually;

use super::Raw;

/// Sessions of the store's, on this database, of which `condition` holds.
async fn sessions(raw: &Raw, condition: &str) -> usize {
    let sql = format!(
        "SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name = 'stile' AND {condition}"
    );
    raw.value(&sql).await.parse().expect("a number")
}

/// Until so many of the store's sessions wait for somebody's lock.
pub(crate) async fn wait_until_blocked(raw: &Raw, count: usize) {
    eventually("a session that waits for a lock", async || {
        (sessions(raw, "wait_event_type = 'Lock'").await == count).then_some(())
    })
    .await;
}

/// Until one of the store's sessions sits in a transaction and does nothing.
pub(crate) async fn wait_until_idle(raw: &Raw) {
    eventually("a session that sits idle in a transaction", async || {
        (sessions(raw, "state = 'idle in transaction'").await == 1).then_some(())
    })
    .await;
}
