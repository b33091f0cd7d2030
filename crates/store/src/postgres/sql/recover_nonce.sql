-- The nonce of a transaction that was found on chain: one that nobody has, or that was given back.
INSERT INTO nonce (chain_id, signer, nonce, owner_kind, owner_id, status, tx_hash, locked_until,
                   fencing_token, created_at, updated_at)
VALUES ($1, $2, $3, 'tx', $4, 'CONSUMED', $5, $7, $6, $7, $7)
ON CONFLICT (chain_id, signer, nonce) DO UPDATE
SET owner_kind = excluded.owner_kind, owner_id = excluded.owner_id, status = excluded.status,
    tx_hash = excluded.tx_hash, reason = NULL, locked_until = excluded.locked_until,
    fencing_token = excluded.fencing_token, created_at = excluded.created_at, updated_at = excluded.updated_at
WHERE nonce.status = 'RELEASED'
RETURNING nonce
