-- Callers' marks on their own holds: compare-and-set on hold id and status. What does not come
-- back was marked before, contradicts what is known, or is no longer the caller's.
WITH mark AS (
    SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::uuid[], $5::bytea[], $6::text[])
        AS m (chain_id, signer, nonce, hold_id, tx_hash, reason)
), locked AS (
    SELECT m.*
    FROM mark m JOIN nonce n USING (chain_id, signer, nonce)
    WHERE n.owner_kind = 'hold' AND n.owner_id = m.hold_id
    ORDER BY n.chain_id, n.signer, n.nonce
    FOR UPDATE OF n
)
UPDATE nonce n
SET status = CASE WHEN k.tx_hash IS NULL THEN 'RELEASED' ELSE 'CONSUMED' END,
    tx_hash = k.tx_hash,
    reason = coalesce(k.reason, n.reason),
    updated_at = clock_timestamp()
FROM locked k
WHERE n.chain_id = k.chain_id AND n.signer = k.signer AND n.nonce = k.nonce
  AND n.owner_kind = 'hold' AND n.owner_id = k.hold_id
  AND CASE WHEN k.tx_hash IS NULL THEN n.status IN ('HELD', 'SUSPECT')
           ELSE n.status <> 'CONSUMED' OR n.tx_hash IS NULL END
RETURNING n.chain_id, n.signer, n.nonce, n.owner_id, n.status, n.locked_until, n.tx_hash, n.reason
