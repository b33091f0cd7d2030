-- Lanes of a restored database on which one of these requests may have been made before. Asked after the
-- fence, under the lane's lock.
SELECT DISTINCT l.chain_id, l.signer
FROM unnest($1::bigint[], $2::bytea[], $3::json[]) AS w (chain_id, signer, payload)
JOIN lane l USING (chain_id, signer)
WHERE l.restore_settled_at IS NULL OR stile_is_like_lost(l.chain_id, l.signer, w.payload)
