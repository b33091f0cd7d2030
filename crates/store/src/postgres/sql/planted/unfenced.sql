-- A planted bug: the fence without its look at incarnation and token.
WITH claim AS (
    SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::uuid[], $4::bigint[], $5::bigint[], $6::bigint[])
        AS c (chain_id, signer, incarnation, token, first, taken)
), locked AS (
    SELECT c.*
    FROM lane l JOIN claim c USING (chain_id, signer)
    ORDER BY l.chain_id, l.signer
    FOR UPDATE OF l
)
UPDATE lane l
SET expires_at = clock_timestamp() + make_interval(secs => $7),
    updated_at = clock_timestamp(),
    next_nonce = CASE WHEN k.first IS NULL THEN l.next_nonce ELSE l.next_nonce + k.taken END
FROM locked k
WHERE l.chain_id = k.chain_id AND l.signer = k.signer
  AND (k.first IS NULL OR (l.next_nonce = k.first AND l.paused IS NULL))
RETURNING l.chain_id, l.signer, l.updated_at, l.next_nonce
