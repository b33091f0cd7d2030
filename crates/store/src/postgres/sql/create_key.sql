-- Nothing comes back if the name is taken. A hash that is taken is an error.
INSERT INTO api_key (key_id, name, hash, hint, operations, signers, created_at, expires_at)
SELECT $1, $2, $3, $4, $5, $6, now, now + $7::float8 * interval '1 second'
FROM clock_timestamp() AS now
ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING
RETURNING key_id, name, hint, operations, signers, created_at, expires_at, revoked_at
