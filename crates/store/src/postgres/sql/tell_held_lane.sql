-- An entry by the lane's holder, whose claim has passed the fence: so it is the owner of the row.
INSERT INTO lane_event (chain_id, signer, kind, at, node_id, fencing_token, data)
SELECT l.chain_id, l.signer, $3, l.updated_at, l.owner_node, l.fencing_token, $4
FROM lane l
WHERE l.chain_id = $1 AND l.signer = $2
