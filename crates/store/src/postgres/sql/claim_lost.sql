-- What was found on chain belongs to a transaction. Behind the fence.
UPDATE lost_tx SET claimed_by = $5
WHERE chain_id = $1 AND signer = $2 AND nonce = $3 AND hash = $4 AND raw = $6 AND claimed_by IS NULL
RETURNING nonce
