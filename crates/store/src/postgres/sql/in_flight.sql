-- Those of these transactions that have a nonce and are not done, with their attempts, of which only
-- the newest has its bytes. Forked: blocks above its own were replaced after its last entry was written.
SELECT t.*, a.kinds, a.hashes, a.raws,
       EXISTS (SELECT FROM header h
               WHERE h.chain_id = t.chain_id AND h.height > t.block_number
                 AND h.replaced_at > t.updated_at) AS forked
FROM unnest($1::uuid[]) WITH ORDINALITY AS w (tx_id, place)
JOIN tx t USING (tx_id)
CROSS JOIN LATERAL (
    SELECT array_agg(a.kind ORDER BY a.number) AS kinds, array_agg(a.hash ORDER BY a.number) AS hashes,
           array_agg(CASE WHEN a.newer IS NULL THEN a.raw ELSE ''::bytea END ORDER BY a.number) AS raws
    FROM (SELECT a.*, lead(a.number) OVER (ORDER BY a.number) AS newer FROM attempt a WHERE a.tx_id = t.tx_id) a
) a
WHERE t.phase = 'OPEN'
ORDER BY w.place
