-- Where the lane goes on: never before what it has given out itself. A cursor from another history of
-- the database stays one: the lane is realigned, and marked, when Stile gets it.
WITH moved AS (
    UPDATE lane
    SET next_nonce = greatest(coalesce(next_nonce, 0), $3), last_chain_nonce = $4,
        timeline = CASE WHEN next_nonce IS NULL THEN stile_timeline() ELSE timeline END,
        fencing_token = fencing_token + 1, updated_at = clock_timestamp()
    WHERE chain_id = $1 AND signer = $2
    RETURNING chain_id, signer, updated_at
)
INSERT INTO lane_event (chain_id, signer, kind, at, node_id, data)
SELECT m.chain_id, m.signer, $5, m.updated_at, $6, $7 FROM moved m
