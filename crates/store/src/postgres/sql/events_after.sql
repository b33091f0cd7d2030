-- The stream after a place. Only what was written by transactions older than every one that still
-- runs: whatever becomes visible later comes after it in this order.
SELECT e.* FROM tx_event e
WHERE (e.transaction, e.entry) > ($1, $2)
  AND e.transaction < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
ORDER BY e.transaction, e.entry
LIMIT $3
