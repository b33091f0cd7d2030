-- At start: the lanes that an earlier incarnation of this node left behind, expired or not.
WITH left_behind AS (
    SELECT chain_id, signer FROM lane
    WHERE owner_node = $1 AND owner_incarnation <> $2
    ORDER BY chain_id, signer
    FOR UPDATE
)
UPDATE lane l
SET owner_incarnation = $2,
    owner_url = $3,
    fencing_token = l.fencing_token + 1,
    acquired_at = clock_timestamp(),
    expires_at = clock_timestamp() + make_interval(secs => $4),
    updated_at = clock_timestamp()
FROM left_behind b
WHERE l.chain_id = b.chain_id AND l.signer = b.signer
  AND l.owner_node = $1 AND l.owner_incarnation <> $2
RETURNING l.chain_id, l.signer, l.fencing_token, l.expires_at,
          CASE WHEN l.timeline = stile_timeline() THEN l.next_nonce END AS next_nonce, l.paused, l.elsewhere, true AS taken
