-- Sets a cursor that is not set yet, with the first entry of the lane's history. In a restored database
-- a lane may only seem new: one whose account has been used is marked too, until what was restored is
-- settled. That it was restored may not have been noted yet: then the tables are not the known ones.
WITH restored AS (
    SELECT $3::bigint > 0 AND (EXISTS (SELECT FROM lane o WHERE o.restored_at IS NOT NULL AND o.restore_settled_at IS NULL)
                       OR EXISTS (SELECT FROM lane o WHERE o.timeline IS NULL AND o.next_nonce IS NOT NULL)
                       OR EXISTS (SELECT FROM origin o WHERE o.place NOT LIKE '%/' || stile_place())) AS open
), started AS (
    UPDATE lane
    SET next_nonce = $3::bigint, timeline = stile_timeline(),
        restored_at = CASE WHEN r.open THEN clock_timestamp() END,
        restored_from = CASE WHEN r.open THEN $3::bigint END,
        restored_to = CASE WHEN r.open THEN $3::bigint END
    FROM restored r
    WHERE chain_id = $1 AND signer = $2 AND next_nonce IS NULL
    RETURNING chain_id, signer, next_nonce, fencing_token, updated_at
), told AS (
    INSERT INTO lane_event (chain_id, signer, kind, at, node_id, fencing_token, data)
    SELECT s.chain_id, s.signer, $4, s.updated_at, $5, s.fencing_token, $6 FROM started s
)
SELECT coalesce(s.next_nonce, l.next_nonce) AS next_nonce
FROM lane l LEFT JOIN started s USING (chain_id, signer)
WHERE l.chain_id = $1 AND l.signer = $2
