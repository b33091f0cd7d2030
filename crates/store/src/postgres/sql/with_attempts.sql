-- Transactions in any state, with their attempts; forked as in in_flight.sql.
SELECT t.*, a.kinds, a.hashes, a.raws,
       EXISTS (SELECT FROM header h
               WHERE h.chain_id = t.chain_id AND h.height > t.block_number
                 AND h.replaced_at > t.updated_at) AS forked
FROM unnest($1::uuid[]) WITH ORDINALITY AS w (tx_id, place)
JOIN tx t USING (tx_id)
CROSS JOIN LATERAL (
    SELECT array_agg(a.kind ORDER BY a.number) AS kinds, array_agg(a.hash ORDER BY a.number) AS hashes,
           array_agg(a.raw ORDER BY a.number) AS raws
    FROM attempt a WHERE a.tx_id = t.tx_id
) a
ORDER BY w.place
