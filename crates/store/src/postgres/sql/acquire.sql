-- Takes lanes that are new, ours already, or expired for at least $7 seconds. A lane that is
-- somebody else's is left unwritten and does not come back. The clock is read anew for each row,
-- after its lock was got.
INSERT INTO lane AS l (chain_id, signer, owner_node, owner_incarnation, owner_url, fencing_token,
                       acquired_at, expires_at, updated_at)
SELECT w.chain_id, w.signer, $3, $4, $5, 1, statement_timestamp(),
       clock_timestamp() + make_interval(secs => $6), clock_timestamp()
FROM unnest($1::bigint[], $2::bytea[]) AS w (chain_id, signer)
ORDER BY w.chain_id, w.signer
ON CONFLICT (chain_id, signer) DO UPDATE
SET owner_node = excluded.owner_node,
    owner_incarnation = excluded.owner_incarnation,
    owner_url = excluded.owner_url,
    fencing_token = l.fencing_token
        + CASE WHEN l.owner_incarnation = excluded.owner_incarnation THEN 0 ELSE 1 END,
    acquired_at = CASE WHEN l.owner_incarnation = excluded.owner_incarnation
                       THEN l.acquired_at ELSE excluded.acquired_at END,
    expires_at = clock_timestamp() + make_interval(secs => $6),
    updated_at = clock_timestamp()
WHERE l.owner_incarnation = excluded.owner_incarnation
   OR l.expires_at <= clock_timestamp() - make_interval(secs => $7)
RETURNING l.chain_id, l.signer, l.fencing_token, l.expires_at,
          CASE WHEN l.timeline = stile_timeline() THEN l.next_nonce END AS next_nonce, l.paused, l.elsewhere,
          l.acquired_at = statement_timestamp() AS taken
