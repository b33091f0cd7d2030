-- Headers that are canonical no longer. One that was never written is, so that what stood on it can
-- be told of the fork. The first word on when it happened stays.
INSERT INTO header AS h (chain_id, height, hash, parent, seen_at, replaced_at)
SELECT $1, w.height, w.hash, w.parent, clock_timestamp(), clock_timestamp()
FROM unnest($2::bigint[], $3::bytea[], $4::bytea[]) AS w (height, hash, parent)
ON CONFLICT (chain_id, height, hash) DO UPDATE SET replaced_at = excluded.replaced_at
WHERE h.replaced_at IS NULL
