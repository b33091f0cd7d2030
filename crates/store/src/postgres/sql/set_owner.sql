-- Puts lanes on the list, each only if it stands there as expected; '' is for one that is not on it. What
-- Stile has given out nonces of is not V1's just because V1 knows it too.
WITH standing AS (
    SELECT w.chain_id, w.signer, o.owner, coalesce(l.next_nonce IS NOT NULL, false) AS started
    FROM unnest($1::bigint[], $2::bytea[]) AS w (chain_id, signer)
    LEFT JOIN rollout_lane o USING (chain_id, signer)
    LEFT JOIN lane l USING (chain_id, signer)
), changed AS (
    INSERT INTO rollout_lane (chain_id, signer, owner, updated_at)
    SELECT s.chain_id, s.signer, $4, clock_timestamp()
    FROM standing s
    WHERE coalesce(s.owner, '') = ANY ($3::text[]) AND NOT ($4 = 'v1' AND s.owner IS NULL AND s.started)
    ON CONFLICT (chain_id, signer) DO UPDATE SET owner = excluded.owner, updated_at = excluded.updated_at
    RETURNING chain_id, signer
)
SELECT s.chain_id, s.signer, s.owner, s.started, c.chain_id IS NOT NULL AS changed
FROM standing s LEFT JOIN changed c USING (chain_id, signer)
