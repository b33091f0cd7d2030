-- Sets a cursor that is not set yet, with the first entry of the lane's history.
WITH started AS (
    UPDATE lane SET next_nonce = $3, timeline = stile_timeline()
    WHERE chain_id = $1 AND signer = $2 AND next_nonce IS NULL
    RETURNING chain_id, signer, next_nonce, fencing_token, updated_at
), told AS (
    INSERT INTO lane_event (chain_id, signer, kind, at, node_id, fencing_token, data)
    SELECT s.chain_id, s.signer, $4, s.updated_at, $5, s.fencing_token, $6 FROM started s
)
SELECT coalesce(s.next_nonce, l.next_nonce) AS next_nonce
FROM lane l LEFT JOIN started s USING (chain_id, signer)
WHERE l.chain_id = $1 AND l.signer = $2
