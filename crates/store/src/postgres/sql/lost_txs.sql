-- What was found on chain, each with the transaction that it belongs to: the one that it was taken for, or
-- the one that has its nonce. What a caller says to have sent at its own nonce was not lost.
SELECT f.nonce, f.hash, f.block_number, f.raw, f.payload,
       coalesce(f.claimed_by, CASE n.owner_kind WHEN 'tx' THEN n.owner_id END) AS claimed_by
FROM lost_tx f
LEFT JOIN nonce n ON n.chain_id = f.chain_id AND n.signer = f.signer AND n.nonce = f.nonce
WHERE f.chain_id = $1 AND f.signer = $2
  AND (n.owner_kind = 'hold' AND n.tx_hash = f.hash) IS NOT TRUE
ORDER BY f.nonce
