-- What waits until it is known whether it was sent before the database was restored.
SELECT t.* FROM tx t
JOIN lane l ON l.chain_id = t.chain_id AND l.signer = t.signer
WHERE t.chain_id = $1 AND t.signer = $2 AND t.phase = 'WAITING'
  AND stile_is_marked(l, t)
ORDER BY t.position
LIMIT $3
