SELECT key_id, name, hint, operations, signers, networks, created_at, expires_at, last_used_at, replaced_by,
       revoked_at
FROM api_key
WHERE $1 OR revoked_at IS NULL
ORDER BY created_at, key_id
