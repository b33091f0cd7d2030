SELECT node_id, incarnation, url, mode, serves, started_at, seen_at, draining FROM node
WHERE seen_at > clock_timestamp() - make_interval(secs => $1)
ORDER BY node_id
