UPDATE lane l
SET last_chain_nonce = f.latest
FROM unnest($1::bigint[], $2::bytea[], $3::bigint[]) AS f (chain_id, signer, latest)
WHERE l.chain_id = f.chain_id AND l.signer = f.signer AND l.last_chain_nonce IS DISTINCT FROM f.latest
