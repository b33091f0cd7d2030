-- Who has a lane's nonces from $3 on.
SELECT n.chain_id, n.signer, n.nonce, n.owner_id, n.status, n.locked_until, n.tx_hash, n.reason, t.state
FROM nonce n
LEFT JOIN tx t ON n.owner_kind = 'tx' AND t.tx_id = n.owner_id
WHERE n.chain_id = $1 AND n.signer = $2 AND n.nonce >= $3
  AND (n.owner_kind = 'hold' OR t.tx_id IS NOT NULL)
ORDER BY n.nonce
LIMIT $4
