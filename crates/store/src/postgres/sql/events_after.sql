-- The stream after a place, of transactions and of lanes in one order. Only what was written by
-- database transactions older than every one that still runs: whatever becomes visible later comes
-- after it in this order. And only if the place belongs to the history that is being written and to
-- its past: the first row says which it is, and how far transactions have come.
WITH here AS MATERIALIZED (
    SELECT stile_history() AS here, pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS ending
)
SELECT h.here, h.ending, e.*
FROM here h
LEFT JOIN (
    (SELECT t.transaction, t.entry, t.chain_id, t.signer, t.kind, t.at, t.node_id, t.fencing_token, t.data,
            t.tx_id, t.seq, t.tenant, t.state, t.sub_state
     FROM tx_event t
     WHERE (t.transaction, t.entry) > ($1, $2)
       AND t.transaction < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
     ORDER BY t.transaction, t.entry
     LIMIT $3)
    UNION ALL
    (SELECT l.transaction, l.entry, l.chain_id, l.signer, l.kind, l.at, l.node_id, l.fencing_token, l.data,
            NULL, NULL, NULL, NULL, NULL
     FROM lane_event l
     WHERE (l.transaction, l.entry) > ($1, $2)
       AND l.transaction < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
     ORDER BY l.transaction, l.entry
     LIMIT $3)
) e ON h.here = $4 AND $1 <= h.ending
ORDER BY e.transaction, e.entry
LIMIT $3
