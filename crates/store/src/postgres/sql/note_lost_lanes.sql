-- Commits are gone that a node has seen, which was on timeline $1. If that was noted just now, by the
-- finding of number $2, the lanes that stand here as lanes of this history are to be held against their
-- chains: all of them if an older copy was put in the place of the database, or, on a later timeline,
-- those that were taken for lossless. Those of earlier timelines are held against their chains anyway, and
-- by this note they are not taken for lossless.
WITH here AS (
    SELECT t.mark, left(t.mark, 8) AS timeline, coalesce($1::text >= left(t.mark, 8), true) AS went_back
    FROM (SELECT stile_timeline() AS mark) t
), unaligned AS (
    UPDATE lane l SET timeline = NULL
    FROM here h
    WHERE $2::bigint IS NOT NULL AND l.timeline = h.mark
      AND (h.went_back
           OR EXISTS (SELECT FROM lane_event e
                      WHERE e.chain_id = l.chain_id AND e.signer = l.signer AND e.kind = 'REALIGNED'
                        AND e.data->>'timeline' = h.timeline AND e.data->>'lossless' = 'true'))
    RETURNING l.signer
), renamed AS (
    -- Readers of the stream who have seen what is gone are told: the history gets another name.
    UPDATE stream_history s SET timeline = s.timeline || '-' || $2::bigint
    FROM here h
    WHERE $2::bigint IS NOT NULL AND h.went_back AND s.timeline = h.mark
)
SELECT h.timeline, pg_current_wal_insert_lsn() AS position, $2::bigint IS NOT NULL AS noted,
       coalesce($2::bigint, (SELECT o.losses FROM origin o)) AS losses,
       (SELECT count(*) FROM unaligned) AS lanes
FROM here h
