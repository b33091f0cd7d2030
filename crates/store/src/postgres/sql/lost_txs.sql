SELECT f.nonce, f.hash, f.block_number, f.raw, f.payload, f.claimed_by
FROM lost_tx f
WHERE f.chain_id = $1 AND f.signer = $2
ORDER BY f.nonce
