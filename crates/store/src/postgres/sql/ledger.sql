SELECT n.nonce, n.owner_id, n.status, coalesce(n.tx_hash, t.tx_hash) AS tx_hash
FROM nonce n LEFT JOIN tx t ON n.owner_kind <> 'hold' AND t.tx_id = n.owner_id
WHERE n.chain_id = $1 AND n.signer = $2 AND n.nonce >= $3
ORDER BY n.nonce
LIMIT $4
