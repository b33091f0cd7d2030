-- Rows that somebody else has in hand are left for the next time: nobody waits for this. Each node has
-- something to write once a minute, and it is written once a minute, however many they are.
WITH used AS (
    SELECT k.key_id, clock_timestamp() - u.ago * interval '1 second' AS at
    FROM unnest($1::uuid[], $2::float8[]) AS u (key_id, ago) JOIN api_key k USING (key_id)
    FOR UPDATE OF k SKIP LOCKED
)
UPDATE api_key k SET last_used_at = used.at
FROM used WHERE k.key_id = used.key_id AND (k.last_used_at IS NULL OR k.last_used_at < used.at - interval '55 seconds')
