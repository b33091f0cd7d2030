-- Before the first entry of the oldest transaction that still runs, and so before everything that
-- is not to be seen yet. Entries count from 1.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS transaction, 0::bigint AS entry,
       stile_history() AS here
