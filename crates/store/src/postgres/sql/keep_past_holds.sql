-- Before a nonce changes hands: what became of its last hold, for late and repeated marks.
INSERT INTO past_hold (hold_id, chain_id, signer, nonce, locked_until, reason, released_at)
SELECT n.owner_id, n.chain_id, n.signer, n.nonce, n.locked_until, n.reason, n.updated_at
FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::uuid[]) AS r (chain_id, signer, nonce, previous)
JOIN nonce n USING (chain_id, signer, nonce)
WHERE n.status = 'RELEASED' AND n.owner_id = r.previous
