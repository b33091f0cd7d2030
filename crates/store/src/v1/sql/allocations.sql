SELECT nonce::bigint AS nonce, status::text AS status, tx_hash::text AS tx_hash
FROM {allocation} WHERE {signer} = $1 ORDER BY nonce
