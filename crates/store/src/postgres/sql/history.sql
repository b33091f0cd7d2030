SELECT e.*, (SELECT stile_history()) AS here FROM tx_event e WHERE e.tx_id = $1 ORDER BY e.seq
