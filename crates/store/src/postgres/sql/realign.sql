-- A lane that was held against its chain is part of this history of the database. Its token rises past
-- all that were given out in the one that was lost, so that no claim from there is ever taken for one
-- from here. Behind the fence.
WITH realigned AS (
    UPDATE lane
    SET next_nonce = $3, fencing_token = $4, timeline = stile_timeline(), updated_at = clock_timestamp()
    WHERE chain_id = $1 AND signer = $2
    RETURNING chain_id, signer, fencing_token, updated_at
)
INSERT INTO lane_event (chain_id, signer, kind, at, node_id, fencing_token, data)
SELECT r.chain_id, r.signer, $5, r.updated_at, $6, r.fencing_token, $7 FROM realigned r
