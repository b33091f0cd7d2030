INSERT INTO lane_event (chain_id, signer, kind, at, node_id, data)
VALUES ($1, $2, $3, clock_timestamp(), $4, $5)
RETURNING entry
