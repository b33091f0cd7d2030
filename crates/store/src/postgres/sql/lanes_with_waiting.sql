SELECT w.chain_id, w.signer
FROM unnest($1::bigint[], $2::bytea[]) AS w (chain_id, signer)
WHERE EXISTS (SELECT FROM tx t
              WHERE t.chain_id = w.chain_id AND t.signer = w.signer AND t.phase = 'WAITING'
                AND t.sub_state IS DISTINCT FROM 'ESTIMATING')
