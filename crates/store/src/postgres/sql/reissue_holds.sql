-- Released nonces in new hands, in place. Compare-and-set on the hold that gave each one back.
WITH wanted AS (
    SELECT r.*
    FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::uuid[], $5::uuid[], $6::bigint[])
        AS r (chain_id, signer, nonce, previous, hold_id, token)
    JOIN nonce n USING (chain_id, signer, nonce)
    ORDER BY n.chain_id, n.signer, n.nonce
    FOR UPDATE OF n
)
UPDATE nonce n
SET owner_kind = 'hold', owner_id = w.hold_id, status = 'HELD', reason = NULL,
    locked_until = $7::timestamptz + make_interval(secs => $8),
    fencing_token = w.token, created_at = $7, updated_at = $7
FROM wanted w
WHERE n.chain_id = w.chain_id AND n.signer = w.signer AND n.nonce = w.nonce
  AND n.status = 'RELEASED' AND n.owner_id = w.previous
RETURNING n.chain_id, n.signer, n.nonce
