-- Holds by nonce and id, present ones and those whose nonce was given out again.
SELECT n.chain_id, n.signer, n.nonce, n.owner_id, n.status, n.locked_until, n.tx_hash, n.reason,
       false AS past
FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::uuid[]) AS w (chain_id, signer, nonce, hold_id)
JOIN nonce n USING (chain_id, signer, nonce)
WHERE n.owner_kind = 'hold' AND n.owner_id = w.hold_id
UNION ALL
SELECT p.chain_id, p.signer, p.nonce, p.hold_id, 'RELEASED', p.locked_until, NULL, p.reason, true
FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::uuid[]) AS w (chain_id, signer, nonce, hold_id)
JOIN past_hold p USING (hold_id)
WHERE p.chain_id = w.chain_id AND p.signer = w.signer AND p.nonce = w.nonce
