-- How a lane whose row is locked stands to the history of the database, and what it has given out.
SELECT l.next_nonce, l.fencing_token, l.timeline, stile_timeline() AS here,
       -- These say that the server was recovered to a point in time, on purpose.
       EXISTS (SELECT FROM pg_settings s
               WHERE s.name IN ('recovery_target', 'recovery_target_lsn', 'recovery_target_name',
                                'recovery_target_time', 'recovery_target_xid')
                 AND s.setting <> '')
           OR (l.timeline IS NOT NULL AND stile_recovered_to(l.timeline) IS NOT NULL) AS to_a_point,
       EXISTS (SELECT FROM origin o WHERE o.lossy_in = stile_timeline()) AS lossy,
       (SELECT o.losses FROM origin o) AS losses,
       l.restored_at IS NOT NULL AND l.restore_settled_at IS NULL AS is_marked,
       (SELECT n.nonce FROM nonce n WHERE n.chain_id = $1 AND n.signer = $2
        ORDER BY n.nonce DESC LIMIT 1) AS highest
FROM lane l
WHERE l.chain_id = $1 AND l.signer = $2
