-- Waits for whoever is writing the lane, if it is marked. Nobody else does until this transaction ends.
SELECT next_nonce FROM lane
WHERE chain_id = $1 AND signer = $2 AND restored_at IS NOT NULL AND restore_settled_at IS NULL
FOR UPDATE
