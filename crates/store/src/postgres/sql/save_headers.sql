-- Canonical headers. What stands there already as such is not written again by the next node.
INSERT INTO header AS h (chain_id, height, hash, parent, seen_at)
SELECT $1, w.height, w.hash, w.parent, clock_timestamp()
FROM unnest($2::bigint[], $3::bytea[], $4::bytea[]) AS w (height, hash, parent)
ON CONFLICT (chain_id, height, hash) DO UPDATE SET replaced_at = NULL, seen_at = excluded.seen_at
WHERE h.replaced_at IS NOT NULL
