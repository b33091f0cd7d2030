-- What is done and was ended by a block between two heights, its own or that of the transaction that took
-- its nonce, with its attempts; forked as in in_flight.sql.
SELECT t.*, a.kinds, a.hashes, a.raws,
       EXISTS (SELECT FROM header h
               WHERE h.chain_id = t.chain_id AND h.height > t.block_number
                 AND h.replaced_at > t.updated_at) AS forked
FROM unnest($2::bytea[]) AS w (signer)
JOIN tx t USING (signer)
CROSS JOIN LATERAL (
    SELECT array_agg(a.kind ORDER BY a.number) AS kinds, array_agg(a.hash ORDER BY a.number) AS hashes,
           array_agg(a.raw ORDER BY a.number) AS raws
    FROM attempt a WHERE a.tx_id = t.tx_id
) a
WHERE t.chain_id = $1 AND t.done_block > $3 AND t.done_block <= $4
ORDER BY t.signer, t.nonce
