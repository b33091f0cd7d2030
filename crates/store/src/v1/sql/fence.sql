-- Stops V1: waits for writers that were let through, and turns the next ones away.
INSERT INTO {schema}.stile_cutover AS c (signer, state, chain_id, address, at)
VALUES ($1, 'FENCED', $2, $3, clock_timestamp())
ON CONFLICT (signer) DO UPDATE
SET state = 'FENCED', chain_id = excluded.chain_id, address = excluded.address, at = excluded.at, report = NULL
WHERE c.state = 'V1'
