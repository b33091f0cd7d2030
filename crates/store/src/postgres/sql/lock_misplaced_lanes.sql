-- The lanes of a chain that the rule says something else of than their rows do. Locked in one order, so
-- batches cannot deadlock.
SELECT l.chain_id, l.signer
FROM lane l
WHERE l.chain_id = $1 AND l.elsewhere IS DISTINCT FROM stile_elsewhere(l.chain_id, l.signer)
ORDER BY l.chain_id, l.signer
FOR UPDATE
