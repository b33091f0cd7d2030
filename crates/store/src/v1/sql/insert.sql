INSERT INTO {allocation} ({signer}, nonce, status, tx_hash{columns})
SELECT $1, w.nonce, w.status::{status_type}, w.tx_hash::{hash_type}{values}
FROM unnest($2::bigint[], $3::text[], $4::text[]) AS w (nonce, status, tx_hash)
WHERE NOT EXISTS (SELECT FROM {allocation} a WHERE a.{signer} = $1 AND a.nonce = w.nonce)
ORDER BY w.nonce
