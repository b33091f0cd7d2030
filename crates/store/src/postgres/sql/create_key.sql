-- Nothing comes back if the name is taken. A hash that is taken is an error.
INSERT INTO api_key (key_id, name, hash, hint, operations, signers, networks, created_at, expires_at)
SELECT $1, $2, $3, $4, $5, $6, $7, now, now + $8::float8 * interval '1 second'
FROM clock_timestamp() AS now
ON CONFLICT (name) WHERE revoked_at IS NULL AND replaced_by IS NULL DO NOTHING
RETURNING key_id, name, hint, operations, signers, networks, created_at, expires_at, last_used_at, replaced_by,
          revoked_at
