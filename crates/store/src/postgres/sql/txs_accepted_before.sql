-- What stands in the way of an acceptance: the transaction of that request id, or of that very name
-- (an acceptance whose answer was lost is simply asked for again).
SELECT w.place, true AS same_request, t.*
FROM unnest($2::text[], $3::bigint[], $4::bytea[], $5::text[])
    WITH ORDINALITY AS w (tenant, chain_id, signer, request_id, place)
JOIN tx t ON t.tenant = w.tenant AND t.chain_id = w.chain_id AND t.signer = w.signer
         AND t.request_id = w.request_id
UNION ALL
SELECT w.place, false, t.*
FROM unnest($1::uuid[]) WITH ORDINALITY AS w (tx_id, place)
JOIN tx t ON t.tx_id = w.tx_id
ORDER BY same_request
