-- What the chain has seen used: nonces below the account's transaction count.
WITH used AS (
    SELECT n.chain_id, n.signer, n.nonce
    FROM unnest($1::bigint[], $2::bytea[], $3::bigint[]) AS f (chain_id, signer, latest)
    JOIN nonce n USING (chain_id, signer)
    JOIN lane l USING (chain_id, signer)
    WHERE n.status IN ('SUSPECT', 'RELEASED') AND n.owner_kind = 'hold' AND n.nonce < f.latest
      -- A lost history may have sent what the chain shows there: it is read first. What was given back, and
      -- what only a node remembers, may belong to what waits, until a person has settled the lane.
      AND (l.restored_at IS NULL OR l.restore_settled_at IS NOT NULL
           OR (n.status = 'SUSPECT'
               AND n.reason IS DISTINCT FROM 'given out before the database lost its last commits'
               AND EXISTS (SELECT FROM lost_tx x
                           WHERE x.chain_id = n.chain_id AND x.signer = n.signer AND x.nonce = n.nonce)))
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
