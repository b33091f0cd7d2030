-- Released nonces in the hands of transactions, in place. Compare-and-set on the hold that gave
-- each one back. They are CONSUMED from the start: a transaction never gives its nonce back.
WITH wanted AS (
    SELECT r.*
    FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::uuid[], $5::uuid[], $6::bytea[], $7::bigint[])
        AS r (chain_id, signer, nonce, previous, tx_id, tx_hash, token)
    JOIN nonce n USING (chain_id, signer, nonce)
    ORDER BY n.chain_id, n.signer, n.nonce
    FOR UPDATE OF n
)
UPDATE nonce n
SET owner_kind = 'tx', owner_id = w.tx_id, status = 'CONSUMED', tx_hash = w.tx_hash, reason = NULL,
    locked_until = $8, fencing_token = w.token, created_at = $8, updated_at = $8
FROM wanted w
WHERE n.chain_id = w.chain_id AND n.signer = w.signer AND n.nonce = w.nonce
  AND n.status = 'RELEASED' AND n.owner_id = w.previous
RETURNING n.chain_id, n.signer, n.nonce
