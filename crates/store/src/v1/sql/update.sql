UPDATE {allocation} a SET status = w.status::{status_type}, tx_hash = coalesce(w.tx_hash::{hash_type}, a.tx_hash){touched}
FROM unnest($2::bigint[], $3::text[], $4::text[]) AS w (nonce, status, tx_hash)
WHERE a.{signer} = $1 AND a.nonce = w.nonce
  AND (a.status <> w.status::{status_type} OR (w.tx_hash IS NOT NULL AND a.tx_hash IS DISTINCT FROM w.tx_hash::{hash_type}))
