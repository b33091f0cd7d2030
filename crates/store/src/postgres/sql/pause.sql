-- Pausing needs no lease. It raises the token, so that every plan in memory dies. A lane that is
-- paused already comes back too, and nothing of it is written.
WITH paused AS (
    UPDATE lane
    SET paused = $3, fencing_token = fencing_token + 1, updated_at = clock_timestamp()
    WHERE chain_id = $1 AND signer = $2 AND paused IS NULL
    RETURNING chain_id, signer, updated_at
), told AS (
    INSERT INTO lane_event (chain_id, signer, kind, at, node_id, data)
    SELECT p.chain_id, p.signer, $4, p.updated_at, $5, $6 FROM paused p
)
SELECT FROM lane WHERE chain_id = $1 AND signer = $2
