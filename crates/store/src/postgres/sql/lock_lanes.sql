SELECT FROM lane l JOIN unnest($1::bigint[], $2::bytea[]) AS w (chain_id, signer) USING (chain_id, signer)
ORDER BY l.chain_id, l.signer
FOR UPDATE OF l
