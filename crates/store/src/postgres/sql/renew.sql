-- Extends leases in the background. Sorted, and never waiting for a lock: an unordered bulk update
-- deadlocks with the batches of the holders.
WITH mine AS (
    SELECT l.chain_id, l.signer
    FROM lane l
    JOIN unnest($1::bigint[], $2::bytea[], $3::uuid[], $4::bigint[])
        AS c (chain_id, signer, incarnation, token)
        USING (chain_id, signer)
    WHERE l.owner_incarnation = c.incarnation AND l.fencing_token = c.token
    ORDER BY l.chain_id, l.signer
    FOR UPDATE OF l SKIP LOCKED
)
UPDATE lane l
SET expires_at = clock_timestamp() + make_interval(secs => $5), updated_at = clock_timestamp()
FROM mine m
WHERE l.chain_id = m.chain_id AND l.signer = m.signer
RETURNING l.chain_id, l.signer
