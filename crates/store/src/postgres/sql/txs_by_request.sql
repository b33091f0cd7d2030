SELECT t.* FROM unnest($4::text[]) AS w (request_id) JOIN tx t USING (request_id)
WHERE t.tenant = $1 AND t.chain_id = $2 AND t.signer = $3
