-- What waits for an estimate of its gas. One that may have been sent before a restore is not tried: what
-- the chain says of it now proves nothing.
SELECT t.*
FROM unnest($1::bigint[], $2::bytea[]) AS w (chain_id, signer)
CROSS JOIN LATERAL (SELECT t.* FROM tx t
                    LEFT JOIN lane l ON l.chain_id = t.chain_id AND l.signer = t.signer
                    WHERE t.chain_id = w.chain_id AND t.signer = w.signer AND t.phase = 'WAITING'
                      AND t.sub_state = 'ESTIMATING'
                      AND NOT stile_awaits_word(l, t)
                    ORDER BY t.position
                    LIMIT $3) t
ORDER BY t.position
LIMIT $3
