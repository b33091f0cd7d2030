SELECT l.chain_id, l.signer, l.restored_at, l.restored_from, l.restored_to, l.restore_settled_at, l.restored_number, l.restored_begun
FROM lane l
WHERE l.restored_at IS NOT NULL
ORDER BY l.chain_id, l.signer
