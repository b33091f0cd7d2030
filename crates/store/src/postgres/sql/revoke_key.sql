-- By id, or by name: the one that is neither revoked nor rotated, else one that is not revoked, else the
-- last one. Revoked keys keep their time.
UPDATE api_key SET revoked_at = coalesce(revoked_at, clock_timestamp())
WHERE key_id = (
    SELECT key_id FROM api_key WHERE key_id = $1 OR name = $2
    ORDER BY revoked_at IS NOT NULL, replaced_by IS NOT NULL, created_at DESC, key_id DESC
    LIMIT 1
)
RETURNING key_id, name, hint, operations, signers, networks, created_at, expires_at, last_used_at, replaced_by,
          revoked_at
