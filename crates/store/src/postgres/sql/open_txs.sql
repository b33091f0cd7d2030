-- What has a nonce and is not done, with its attempts. Forked: blocks above its own were replaced
-- after its last entry was written.
SELECT t.*, a.kinds, a.hashes, a.raws,
       EXISTS (SELECT FROM header h
               WHERE h.chain_id = t.chain_id AND h.height > t.block_number
                 AND h.replaced_at > t.updated_at) AS forked
FROM unnest($1::bigint[], $2::bytea[]) AS w (chain_id, signer)
JOIN tx t USING (chain_id, signer)
CROSS JOIN LATERAL (
    SELECT array_agg(a.kind ORDER BY a.number) AS kinds, array_agg(a.hash ORDER BY a.number) AS hashes,
           array_agg(a.raw ORDER BY a.number) AS raws
    FROM attempt a WHERE a.tx_id = t.tx_id
) a
WHERE t.phase = 'OPEN'
ORDER BY t.chain_id, t.signer, t.nonce
