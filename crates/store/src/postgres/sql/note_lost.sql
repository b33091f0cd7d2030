-- What was found on chain at nonces that the database had forgotten. Behind the fence.
INSERT INTO lost_tx (chain_id, signer, nonce, hash, block_number, raw, payload, found_at)
SELECT $1, $2, w.nonce, w.hash, w.block_number, w.raw, w.payload, $8
FROM unnest($3::bigint[], $4::bytea[], $5::bigint[], $6::bytea[], $7::json[])
    AS w (nonce, hash, block_number, raw, payload)
ON CONFLICT DO NOTHING
