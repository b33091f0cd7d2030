-- Holds that have outlived their time. $3: SUSPECT, or RELEASED where callers promise never to
-- send late.
WITH due AS (
    SELECT n.chain_id, n.signer, n.nonce
    FROM unnest($1::bigint[], $2::bytea[]) AS f (chain_id, signer)
    JOIN nonce n USING (chain_id, signer)
    WHERE n.status = 'HELD' AND n.owner_kind = 'hold' AND n.locked_until <= clock_timestamp()
    ORDER BY n.chain_id, n.signer, n.nonce
    FOR UPDATE OF n
)
UPDATE nonce n
SET status = $3, reason = coalesce(n.reason, 'the hold ran out'), updated_at = clock_timestamp()
FROM due d
WHERE n.chain_id = d.chain_id AND n.signer = d.signer AND n.nonce = d.nonce AND n.status = 'HELD'
RETURNING n.chain_id, n.signer, n.nonce, n.owner_id, n.status, n.locked_until, n.tx_hash, n.reason
