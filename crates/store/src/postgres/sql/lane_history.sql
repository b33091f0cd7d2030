SELECT e.*, (SELECT stile_history()) AS here FROM lane_event e
WHERE e.chain_id = $1 AND e.signer = $2 AND (e.transaction, e.entry) < ($3, $4)
ORDER BY e.transaction DESC, e.entry DESC
LIMIT $5
