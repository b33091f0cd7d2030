-- What waits for a nonce and may get one, in order of acceptance. What waits for an estimate of its gas
-- holds up nobody and is left out. On a lane that is not aligned, whoever binds realigns it first, and asks again.
SELECT t.* FROM tx t
LEFT JOIN lane l ON l.chain_id = t.chain_id AND l.signer = t.signer
WHERE t.chain_id = $1 AND t.signer = $2 AND t.phase = 'WAITING' AND t.sub_state IS DISTINCT FROM 'ESTIMATING'
  AND NOT stile_is_marked(l, t)
ORDER BY t.position
LIMIT $3
