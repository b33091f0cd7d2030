-- Nonces of a lane that passed the fence, below its cursor, that nobody has: as if each had been held
-- and given back. Those that somebody has stay as they are, and do not come back.
INSERT INTO nonce (chain_id, signer, nonce, owner_kind, owner_id, status, locked_until, reason,
                   fencing_token, created_at, updated_at)
SELECT l.chain_id, l.signer, w.nonce, 'hold', w.hold_id, 'RELEASED', $6, $5, l.fencing_token, $6, $6
FROM unnest($3::bigint[], $4::uuid[]) AS w (nonce, hold_id)
JOIN lane l ON l.chain_id = $1 AND l.signer = $2
WHERE w.nonce < l.next_nonce
ORDER BY w.nonce
ON CONFLICT (chain_id, signer, nonce) DO NOTHING
RETURNING chain_id, signer, nonce, owner_id, status, locked_until, tx_hash, reason
