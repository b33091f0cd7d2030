-- A node lives. Only its own start writes over what another start of the same name has told; it is
-- the later one even if the clock was set back in between.
-- Now and then it is noted how far the history of the database has come, by whoever comes by first.
WITH due AS (
    SELECT h.number FROM stream_history h
    WHERE h.history = (SELECT stile_history()) AND h.noted_at < clock_timestamp() - interval '5 seconds'
    FOR UPDATE SKIP LOCKED
), noted AS (
    UPDATE stream_history h
    SET reached = pg_snapshot_xmin(pg_current_snapshot())::text::bigint, noted_at = clock_timestamp()
    FROM due d
    WHERE h.number = d.number
)
INSERT INTO node AS n (node_id, incarnation, url, mode, serves, started_at, seen_at, draining)
SELECT $1, $2, $3, $4, $5, t.now, t.now, $6 FROM (SELECT clock_timestamp() AS now) t
ON CONFLICT (node_id) DO UPDATE
SET incarnation = excluded.incarnation,
    url = excluded.url,
    mode = excluded.mode,
    serves = excluded.serves,
    started_at = CASE WHEN n.incarnation = excluded.incarnation
                      THEN n.started_at
                      ELSE greatest(n.started_at + interval '1 us', clock_timestamp()) END,
    seen_at = greatest(n.started_at + interval '1 us', clock_timestamp()),
    draining = excluded.draining
WHERE n.incarnation = excluded.incarnation OR $7
RETURNING n.node_id, clock_timestamp() AS heard_at, pg_current_wal_insert_lsn() AS position
