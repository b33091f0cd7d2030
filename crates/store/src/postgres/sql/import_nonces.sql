-- Nonces that were given out before the lane was Stile's. What is there already changes only forward: a
-- released one into whatever it became, a silent one once something is known of it.
INSERT INTO nonce AS n (chain_id, signer, nonce, owner_kind, owner_id, status, locked_until, tx_hash, reason,
                        fencing_token, created_at, updated_at)
SELECT $1, $2, i.nonce, 'hold', i.hold_id, i.status, clock_timestamp(), i.tx_hash, i.reason,
       l.fencing_token, clock_timestamp(), clock_timestamp()
FROM unnest($3::bigint[], $4::uuid[], $5::text[], $6::bytea[], $7::text[])
         AS i (nonce, hold_id, status, tx_hash, reason)
JOIN lane l ON l.chain_id = $1 AND l.signer = $2
ORDER BY i.nonce
ON CONFLICT (chain_id, signer, nonce) DO UPDATE
SET owner_id = CASE WHEN n.status = 'RELEASED' AND excluded.status <> 'RELEASED'
                    THEN excluded.owner_id ELSE n.owner_id END,
    status = excluded.status, tx_hash = excluded.tx_hash, reason = excluded.reason,
    fencing_token = excluded.fencing_token, updated_at = excluded.updated_at
WHERE n.owner_kind = 'hold' AND n.status <> excluded.status
  AND (n.status IN ('RELEASED', 'SUSPECT') OR (n.status = 'HELD' AND excluded.status = 'CONSUMED'))
