-- The fence: the first statement of every write of a lane's holder. A lane comes back only if it
-- is still under the claim's token; its row is then locked until the commit, and its lease is
-- extended. Where nonces are taken the cursor moves in the same update, relative to itself and
-- only from where the plan expects it, only while the lane is Stile's, and only in the history of the
-- database and in the tables in which the lane was last held against its chain. Rows are locked in one
-- order, so batches cannot deadlock. The place in the server's log shows whether it has gone back.
WITH claim AS (
    SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::uuid[], $4::bigint[], $5::bigint[], $6::bigint[])
        AS c (chain_id, signer, incarnation, token, first, taken)
), locked AS (
    SELECT c.*
    FROM lane l JOIN claim c USING (chain_id, signer)
    ORDER BY l.chain_id, l.signer
    FOR UPDATE OF l
)
UPDATE lane l
SET expires_at = clock_timestamp() + make_interval(secs => $7),
    updated_at = clock_timestamp(),
    next_nonce = CASE WHEN k.first IS NULL THEN l.next_nonce ELSE l.next_nonce + k.taken END
FROM locked k
WHERE l.chain_id = k.chain_id AND l.signer = k.signer
  AND l.owner_incarnation = k.incarnation AND l.fencing_token = k.token
  AND (k.first IS NULL
       OR (l.next_nonce = k.first AND l.paused IS NULL AND l.elsewhere IS NULL
           -- Not by the row's own tableoid: it is 0 where the row is looked at again because another commit
           -- was waited for.
           AND l.timeline = stile_timeline()))
RETURNING l.chain_id, l.signer, l.updated_at, l.next_nonce, pg_current_wal_insert_lsn() AS position, l.restored_at IS NOT NULL
    AND (l.restore_settled_at IS NULL
         OR EXISTS (SELECT FROM lost_tx f
                    WHERE f.chain_id = l.chain_id AND f.signer = l.signer AND f.claimed_by IS NULL)) AS restored
