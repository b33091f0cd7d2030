-- Of a lane that passed the fence: nonces that were given back and used by somebody else, whose
-- transactions a reorganisation took out of the chain. Nobody has them again. Their holds are past.
WITH gone AS (
    DELETE FROM nonce n USING unnest($3::bigint[]) AS w (nonce)
    WHERE n.chain_id = $1 AND n.signer = $2 AND n.nonce = w.nonce
      AND n.owner_kind = 'hold' AND n.status = 'CONSUMED' AND n.tx_hash IS NULL AND n.reason = $4
    RETURNING n.owner_id, n.chain_id, n.signer, n.nonce, n.locked_until, n.reason, n.updated_at
)
INSERT INTO past_hold (hold_id, chain_id, signer, nonce, locked_until, reason, released_at)
SELECT owner_id, chain_id, signer, nonce, locked_until, reason, updated_at FROM gone
