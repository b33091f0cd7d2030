      -- Goes on from due_lanes.sql: at most $2 of them, for whoever comes first.
      AND l.owner_incarnation <> $4
    ORDER BY l.chain_id, l.signer
    LIMIT $2
    FOR UPDATE OF l SKIP LOCKED
)
UPDATE lane l
SET owner_node = $3,
    owner_incarnation = $4,
    owner_url = $5,
    fencing_token = l.fencing_token + 1,
    acquired_at = clock_timestamp(),
    expires_at = clock_timestamp() + make_interval(secs => $6),
    updated_at = clock_timestamp()
FROM due d
WHERE l.chain_id = d.chain_id AND l.signer = d.signer
  AND l.expires_at <= clock_timestamp() AND l.owner_incarnation <> $4
RETURNING l.chain_id, l.signer, l.fencing_token, l.expires_at,
          CASE WHEN l.timeline = stile_timeline() THEN l.next_nonce END AS next_nonce, l.paused, l.elsewhere, true AS taken
