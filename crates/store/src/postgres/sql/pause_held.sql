-- A pause by the lane's holder, whose claim has passed the fence: so it is the owner of the row. It
-- raises the token like any other. A lane that is paused already stays as it is.
WITH paused AS (
    UPDATE lane
    SET paused = $3, fencing_token = fencing_token + 1, updated_at = clock_timestamp()
    WHERE chain_id = $1 AND signer = $2 AND paused IS NULL
    RETURNING chain_id, signer, updated_at, owner_node
)
INSERT INTO lane_event (chain_id, signer, kind, at, node_id, fencing_token, data)
SELECT p.chain_id, p.signer, $4, p.updated_at, p.owner_node, $5, $6 FROM paused p
