SELECT t.chain_id, t.signer, t.tx_id, t.wish
FROM unnest($1::bigint[], $2::bytea[]) AS w (chain_id, signer)
JOIN tx t USING (chain_id, signer)
WHERE t.wish IS NOT NULL
ORDER BY t.chain_id, t.signer, t.nonce
