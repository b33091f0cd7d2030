-- A person has said what became of what waited. What was found and belongs to nobody is still minded, and
-- what was stepped over is still read. Behind the lane's lock.
WITH settled AS (
    UPDATE lane l
    SET restore_settled_at = clock_timestamp(), updated_at = clock_timestamp()
    WHERE l.chain_id = $1 AND l.signer = $2
    RETURNING l.chain_id, l.signer, l.updated_at
)
INSERT INTO lane_event (chain_id, signer, kind, at, node_id, data)
SELECT s.chain_id, s.signer, $3, s.updated_at, $4, $5 FROM settled s
