-- A node has ended. Those that ended without a word are forgotten after a day.
DELETE FROM node
WHERE (node_id = $1 AND incarnation = $2) OR seen_at < clock_timestamp() - interval '1 day'
