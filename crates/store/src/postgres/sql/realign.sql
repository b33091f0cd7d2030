-- A lane that was held against its chain is part of this history of the database. Its token rises past
-- all that were given out in the one that was lost, so that no claim from there is ever taken for one
-- from here. If commits may be missing ($8) the lane is marked. Behind the fence.
WITH realigned AS (
    UPDATE lane
    SET next_nonce = $3, fencing_token = $4, timeline = stile_timeline(), updated_at = clock_timestamp(),
        restored_at = CASE WHEN $8 THEN clock_timestamp() ELSE restored_at END,
        restored_number = restored_number + $8::int,
        restored_begun = restored_begun AND (NOT $8 OR restore_settled_at IS NULL),
        -- What was settled before is not looked at again: its nonces are known, or retention has
        -- removed them. What is open goes on, and has more to be read.
        restored_from = CASE WHEN NOT $8 THEN restored_from
                             WHEN restore_settled_at IS NULL THEN least(restored_from, next_nonce)
                             ELSE next_nonce END,
        restored_to = CASE WHEN $8 OR (restored_at IS NOT NULL AND restore_settled_at IS NULL) THEN $3
                           ELSE restored_to END,
        restore_settled_at = CASE WHEN NOT $8 THEN restore_settled_at END
    WHERE chain_id = $1 AND signer = $2
    RETURNING chain_id, signer, fencing_token, updated_at
), remembered AS (
    -- What only a node remembers to have given out is nobody's to give out again.
    INSERT INTO nonce (chain_id, signer, nonce, owner_kind, owner_id, status, locked_until, reason,
                       fencing_token, created_at, updated_at)
    SELECT r.chain_id, r.signer, w.nonce, 'hold', w.hold_id, 'SUSPECT', r.updated_at, $11, r.fencing_token,
           r.updated_at, r.updated_at
    FROM realigned r CROSS JOIN unnest($9::bigint[], $10::uuid[]) AS w (nonce, hold_id)
)
INSERT INTO lane_event (chain_id, signer, kind, at, node_id, fencing_token, data)
SELECT r.chain_id, r.signer, $5, r.updated_at, $6, r.fencing_token, $7 FROM realigned r
