      -- Goes on from due_lanes.sql: at most $2 of them, with the time since they ran out.
)
SELECT chain_id, signer, extract(epoch FROM clock_timestamp() - expires_at)::float8 AS overdue_secs
FROM due
ORDER BY chain_id, signer
LIMIT $2
