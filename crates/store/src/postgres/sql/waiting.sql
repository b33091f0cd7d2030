SELECT t.* FROM tx t
WHERE t.chain_id = $1 AND t.signer = $2 AND t.phase = 'WAITING'
ORDER BY t.position
LIMIT $3
