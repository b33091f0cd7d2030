-- Commits are gone that a node has seen, which had heard of $1 such findings. Answers with how many there
-- are now, if nobody has noted that since. It waits for whoever takes the history for whole
-- (`keep_history.sql`), and keeps everybody else from that until the lanes are dealt with
-- (`note_lost_lanes.sql`), by a statement of its own: this one does not see what it has waited for.
UPDATE origin o SET losses = greatest(o.losses, $1) + 1, lossy_in = stile_timeline()
WHERE $1::bigint IS NULL OR o.losses <= $1
RETURNING o.losses
