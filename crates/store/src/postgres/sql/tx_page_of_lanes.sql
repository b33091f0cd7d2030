-- The same on some lanes only: the newest of each, and of those the newest.
SELECT newest.*
FROM unnest($5::bigint[], $6::bytea[]) AS w (chain_id, signer)
CROSS JOIN LATERAL (
    SELECT t.* FROM tx t
    WHERE t.chain_id = w.chain_id AND t.signer = w.signer
      AND t.tenant = $1 AND t.position < $2 AND ($3::text IS NULL OR t.state = $3)
    ORDER BY t.position DESC
    LIMIT $4
) newest
ORDER BY newest.position DESC
LIMIT $4
