INSERT INTO allocation_key (tenant, chain_id, signer, idempotency_key, nonce, hold_id, created_at)
SELECT k.tenant, k.chain_id, k.signer, k.idempotency_key, k.nonce, k.hold_id, $7
FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::text[], $5::bigint[], $6::uuid[])
    AS k (tenant, chain_id, signer, idempotency_key, nonce, hold_id)
