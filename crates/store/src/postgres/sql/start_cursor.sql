-- Sets a cursor that is not set yet, with the first entry of the lane's history. In a database that has
-- lost commits a lane may only seem new. One whose account has been used is marked too: if its holder
-- knows it from before ($7), until what was restored is settled, and while other lanes are to be held
-- against their chains, or the tables are not the known ones. After a promotion of a standby that had everything ($8)
-- that says nothing, unless something has shown that it had not.
WITH here AS MATERIALIZED (
    SELECT stile_timeline() AS timeline
), restored AS (
    SELECT $3::bigint > 0
       AND ($7::boolean
            OR EXISTS (SELECT FROM lane o WHERE o.restored_at IS NOT NULL AND o.restore_settled_at IS NULL)
            OR EXISTS (SELECT FROM lane o WHERE o.timeline IS NULL AND o.next_nonce IS NOT NULL)
            OR ((EXISTS (SELECT FROM lane o WHERE o.timeline < h.timeline AND o.next_nonce IS NOT NULL)
                 OR EXISTS (SELECT FROM lane o WHERE o.timeline > h.timeline AND o.next_nonce IS NOT NULL))
                AND (NOT $8::boolean
                     OR EXISTS (SELECT FROM origin n WHERE n.lossy_in = h.timeline)
                     OR EXISTS (SELECT FROM pg_settings s
                                WHERE s.name IN ('recovery_target', 'recovery_target_lsn', 'recovery_target_name',
                                                 'recovery_target_time', 'recovery_target_xid')
                                  AND s.setting <> '')))) AS open
    FROM here h
), started AS (
    UPDATE lane
    SET next_nonce = $3::bigint, timeline = stile_timeline(),
        restored_at = CASE WHEN r.open THEN clock_timestamp() END,
        restored_from = CASE WHEN r.open THEN $9::bigint END,
        restored_to = CASE WHEN r.open THEN $3::bigint END,
        restored_number = r.open::int, restored_begun = r.open
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
