-- What the chain has seen used: nonces below the account's transaction count.
WITH used AS (
    SELECT n.chain_id, n.signer, n.nonce
    FROM unnest($1::bigint[], $2::bytea[], $3::bigint[]) AS f (chain_id, signer, latest)
    JOIN nonce n USING (chain_id, signer)
    JOIN lane l USING (chain_id, signer)
    WHERE n.status IN ('SUSPECT', 'RELEASED') AND n.owner_kind = 'hold' AND n.nonce < f.latest
      -- What the lost history may have given to a transaction is read first.
      AND (l.restored_at IS NULL OR l.restore_settled_at IS NOT NULL OR n.nonce >= l.restored_to
           OR NOT coalesce(stile_may_be_lost(n.status, n.reason, n.created_at, l.restored_at), false))
    ORDER BY n.chain_id, n.signer, n.nonce
    FOR UPDATE OF n
)
UPDATE nonce n
SET status = 'CONSUMED', updated_at = clock_timestamp(),
    -- What its caller had given back was used by somebody else.
    reason = CASE n.status WHEN 'RELEASED' THEN $4 ELSE 'the chain shows this nonce used' END
FROM used u
WHERE n.chain_id = u.chain_id AND n.signer = u.signer AND n.nonce = u.nonce
  AND n.status IN ('SUSPECT', 'RELEASED')
RETURNING n.chain_id, n.signer, n.nonce, n.owner_id, n.status, n.locked_until, n.tx_hash, n.reason
