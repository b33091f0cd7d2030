-- Resuming needs no lease either, and raises the token too. Behind the lane's lock.
WITH resumed AS (
    UPDATE lane
    SET paused = NULL, fencing_token = fencing_token + 1, next_nonce = coalesce($3, next_nonce),
        updated_at = clock_timestamp(),
        restored_to = CASE WHEN restore_settled_at IS NULL AND restored_at IS NOT NULL
                           THEN greatest(restored_to, $3) ELSE restored_to END
    WHERE chain_id = $1 AND signer = $2
    RETURNING chain_id, signer, updated_at
)
INSERT INTO lane_event (chain_id, signer, kind, at, node_id, data)
SELECT r.chain_id, r.signer, $4, r.updated_at, $5, $6 FROM resumed r
