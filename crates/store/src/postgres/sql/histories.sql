-- All histories that are known, oldest first: a row for each failover and each restore. Those of tables
-- that were loaded from a dump counted transactions of another server, so nothing of them is comparable.
SELECT h.history, h.timeline, h.began,
       CASE WHEN h.place = coalesce((SELECT o.place FROM origin o), '') THEN h.reached ELSE 0 END AS reached,
       h.history = stile_history() AS is_here,
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS ending
FROM stream_history h
ORDER BY h.number
