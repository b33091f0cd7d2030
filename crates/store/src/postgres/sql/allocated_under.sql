SELECT k.tenant, k.idempotency_key, k.nonce, k.hold_id
FROM unnest($3::text[], $4::text[]) AS w (tenant, idempotency_key)
JOIN allocation_key k USING (tenant, idempotency_key)
WHERE k.chain_id = $1 AND k.signer = $2
