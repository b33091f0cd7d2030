-- Names the history that is being written, unless somebody has.
INSERT INTO stream_history (history, place, timeline, began, reached, noted_at)
SELECT $1, coalesce((SELECT o.place FROM origin o), ''), stile_timeline(), t.oldest, t.oldest, clock_timestamp()
FROM (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS oldest) t
ON CONFLICT (place, timeline) DO NOTHING
