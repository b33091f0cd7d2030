-- Removes holds of one lane ($1, $2) that are over, with their idempotency keys, at most $5: nonces
-- that the chain shows used (below $3) and that have been CONSUMED for $4 seconds.
WITH oldest AS MATERIALIZED (
    SELECT n.nonce FROM nonce n
    WHERE n.chain_id = $1 AND n.signer = $2 AND n.nonce < $3 AND n.owner_kind = 'hold' AND n.status = 'CONSUMED'
      -- A nonce that nobody has would look like one that was lost with the database.
      AND NOT EXISTS (SELECT FROM lane l
                      WHERE l.chain_id = n.chain_id AND l.signer = n.signer
                        AND n.nonce >= l.restored_from AND n.nonce < l.restored_to)
    ORDER BY n.nonce
    LIMIT 2 * $5::bigint
), over AS (
    SELECT n.chain_id, n.signer, n.nonce, n.owner_id
    FROM oldest
    JOIN nonce n USING (nonce)
    WHERE n.chain_id = $1 AND n.signer = $2 AND n.owner_kind = 'hold' AND n.status = 'CONSUMED'
      AND n.updated_at <= statement_timestamp() - make_interval(secs => $4)
    LIMIT $5
    FOR UPDATE OF n SKIP LOCKED
), keys AS (
    DELETE FROM allocation_key k USING over o
    WHERE k.chain_id = o.chain_id AND k.signer = o.signer AND k.nonce = o.nonce AND k.hold_id = o.owner_id
), holds AS (
    DELETE FROM nonce n USING over o
    WHERE n.chain_id = o.chain_id AND n.signer = o.signer AND n.nonce = o.nonce
    RETURNING n.nonce
)
SELECT count(*) AS removed FROM holds
