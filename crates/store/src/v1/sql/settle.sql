-- Whatever V1 would give out again although the chain shows it used.
UPDATE {allocation} SET status = $3::{status_type}{touched}
WHERE {signer} = $1 AND nonce < $2 AND status = $4::{status_type}
