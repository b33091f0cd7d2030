-- As in keep_past_holds.sql, whoever had it.
INSERT INTO past_hold (hold_id, chain_id, signer, nonce, locked_until, reason, released_at)
SELECT n.owner_id, n.chain_id, n.signer, n.nonce, n.locked_until, n.reason, n.updated_at
FROM nonce n
WHERE n.chain_id = $1 AND n.signer = $2 AND n.nonce = $3 AND n.status = 'RELEASED'
RETURNING nonce
