-- What waits until it is known whether it was sent before the database was restored.
SELECT t.* FROM tx t
JOIN lane l ON l.chain_id = t.chain_id AND l.signer = t.signer
WHERE t.chain_id = $1 AND t.signer = $2 AND t.phase = 'WAITING'
  AND stile_awaits_word(l.restored_at, l.restore_settled_at, t.chain_id, t.signer, t.tenant, t.tx_id,
                        t.payload)
ORDER BY t.position
LIMIT $3
