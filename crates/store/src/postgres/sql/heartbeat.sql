-- A node lives. Only its own start writes over what another start of the same name has told; it is
-- the later one even if the clock was set back in between.
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
RETURNING n.node_id
