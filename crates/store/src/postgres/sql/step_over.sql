-- The cursor of a marked lane went past nonces that the chain shows used: they are to be read too.
-- Behind the fence.
WITH stepped AS (
    UPDATE lane SET restored_to = greatest(restored_to, $3)
    WHERE chain_id = $1 AND signer = $2 AND restored_at IS NOT NULL
)
INSERT INTO lane_event (chain_id, signer, kind, at, node_id, fencing_token, data)
SELECT l.chain_id, l.signer, $4, l.updated_at, l.owner_node, l.fencing_token, $5
FROM lane l
WHERE l.chain_id = $1 AND l.signer = $2
