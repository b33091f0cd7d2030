-- Lanes of a restored database on which one of these transactions ($1) may have been sent before. Asked
-- after the fence, under the lane's lock.
SELECT DISTINCT t.chain_id, t.signer
FROM unnest($1::uuid[]) AS w (tx_id)
JOIN tx t USING (tx_id)
JOIN lane l ON l.chain_id = t.chain_id AND l.signer = t.signer
WHERE stile_is_marked(l, t)
