-- Lanes on which a transaction waits that is not among those about to get a nonce. Asked after the
-- fence, under the lane's lock.
SELECT w.chain_id, w.signer
FROM unnest($1::bigint[], $2::bytea[]) AS w (chain_id, signer)
WHERE EXISTS (SELECT FROM tx t
              WHERE t.chain_id = w.chain_id AND t.signer = w.signer AND t.phase = 'WAITING'
                -- What waits for an estimate of its gas may be overtaken.
                AND t.sub_state IS DISTINCT FROM 'ESTIMATING'
                AND t.tx_id <> ALL ($3::uuid[]))
