-- Takes those of these lanes that have run out. Rows that are locked are left alone: whoever has
-- them locked is working them, or taking them.
WITH due AS (
    SELECT l.chain_id, l.signer
    FROM lane l
    JOIN unnest($5::bigint[], $6::bytea[]) AS w (chain_id, signer) USING (chain_id, signer)
    WHERE l.expires_at <= clock_timestamp()
    ORDER BY l.chain_id, l.signer
    FOR UPDATE OF l SKIP LOCKED
)
UPDATE lane l
SET owner_node = $1,
    owner_incarnation = $2,
    owner_url = $3,
    fencing_token = l.fencing_token + 1,
    acquired_at = clock_timestamp(),
    expires_at = clock_timestamp() + make_interval(secs => $4),
    updated_at = clock_timestamp()
FROM due d
WHERE l.chain_id = d.chain_id AND l.signer = d.signer AND l.expires_at <= clock_timestamp()
RETURNING l.chain_id, l.signer, l.fencing_token, l.expires_at,
          CASE WHEN l.timeline = stile_timeline() THEN l.next_nonce END AS next_nonce, l.paused, l.elsewhere, true AS taken
