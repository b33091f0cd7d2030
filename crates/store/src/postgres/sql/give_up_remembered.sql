-- A nonce that only a node remembered is in nobody's hands: the chain shows whose it is.
UPDATE nonce SET status = 'RELEASED', updated_at = $4
WHERE chain_id = $1 AND signer = $2 AND nonce = $3 AND status = 'SUSPECT' AND reason = $5
RETURNING nonce
