-- Gives lanes back. Row, token and cursor stay; only the expiry goes to the past.
WITH mine AS (
    SELECT c.*
    FROM lane l
    JOIN unnest($1::bigint[], $2::bytea[], $3::uuid[], $4::bigint[])
        AS c (chain_id, signer, incarnation, token)
        USING (chain_id, signer)
    ORDER BY l.chain_id, l.signer
    FOR UPDATE OF l
)
UPDATE lane l
SET expires_at = clock_timestamp(), updated_at = clock_timestamp()
FROM mine m
WHERE l.chain_id = m.chain_id AND l.signer = m.signer
  AND l.owner_incarnation = m.incarnation AND l.fencing_token = m.token
RETURNING l.chain_id, l.signer
