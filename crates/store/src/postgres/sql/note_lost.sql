-- What was found on chain at nonces that the database had forgotten. Behind the fence.
INSERT INTO lost_tx (chain_id, signer, nonce, hash, block_number, raw, payload, found_at)
SELECT $1, $2, w.nonce, w.hash, w.block_number, w.raw, w.payload, $8
FROM unnest($3::bigint[], $4::bytea[], $5::bigint[], $6::bytea[], $7::json[])
    AS w (nonce, hash, block_number, raw, payload)
-- A reorganisation may have put another one there. What belongs to a transaction stays.
ON CONFLICT (chain_id, signer, nonce) DO UPDATE
SET hash = excluded.hash, block_number = excluded.block_number, raw = excluded.raw,
    payload = excluded.payload, found_at = excluded.found_at
WHERE lost_tx.claimed_by IS NULL
  AND (lost_tx.hash, lost_tx.block_number) IS DISTINCT FROM (excluded.hash, excluded.block_number)
