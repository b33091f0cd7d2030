-- The same on some lanes only: the newest of each, and of those the newest.
SELECT t.*
FROM unnest($5::bigint[], $6::bytea[]) AS w (chain_id, signer)
CROSS JOIN LATERAL (
    SELECT x.* FROM tx x
    WHERE x.chain_id = w.chain_id AND x.signer = w.signer
      AND x.tenant = $1 AND x.position < $2 AND ($3::text IS NULL OR x.state = $3)
    ORDER BY x.position DESC
    LIMIT $4
) t
ORDER BY t.position DESC
LIMIT $4
