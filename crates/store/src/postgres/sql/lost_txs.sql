-- What was found on chain, each with the transaction that it belongs to: the one that it was taken for, or
-- the one that has it as an attempt. What a caller says to have sent at its own nonce was not lost.
SELECT f.nonce, f.hash, f.block_number, f.raw, f.payload, coalesce(f.claimed_by, a.tx_id) AS claimed_by
FROM lost_tx f
LEFT JOIN attempt a ON a.hash = f.hash
LEFT JOIN nonce n ON n.chain_id = f.chain_id AND n.signer = f.signer AND n.nonce = f.nonce
WHERE f.chain_id = $1 AND f.signer = $2
  AND (n.owner_kind = 'hold' AND n.tx_hash = f.hash) IS NOT TRUE
ORDER BY f.nonce
