-- A pause like any other, or another reason for the one that there is. Only the first raises the token:
-- where nothing is given out no plan has to die.
WITH paused AS (
    UPDATE lane
    SET paused = $3, fencing_token = fencing_token + (paused IS NULL)::int, updated_at = clock_timestamp()
    WHERE chain_id = $1 AND signer = $2
    RETURNING chain_id, signer, updated_at
)
INSERT INTO lane_event (chain_id, signer, kind, at, node_id, data)
SELECT p.chain_id, p.signer, $4, p.updated_at, $5, $6 FROM paused p
RETURNING entry
