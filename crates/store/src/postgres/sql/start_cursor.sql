UPDATE lane
SET next_nonce = coalesce(next_nonce, $3)
WHERE chain_id = $1 AND signer = $2
RETURNING next_nonce
