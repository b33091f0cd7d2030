-- The old key ends when the overlap is over, or when it was to end anyway. The new one has its name, may
-- do what it could, and lasts as long as the old one was to, unless told otherwise. Nothing comes back if
-- there is no such key that is neither revoked nor rotated. The server's clock may be behind that of the
-- one that made the key: it ends after it was made all the same.
WITH was AS (
    SELECT key_id, expires_at - created_at AS lifetime FROM api_key
    WHERE (key_id = $1 OR name = $2) AND revoked_at IS NULL AND replaced_by IS NULL
    FOR UPDATE
), old AS (
    UPDATE api_key k
    SET replaced_by = $3,
        expires_at = least(k.expires_at, greatest(clock_timestamp() + $6::float8 * interval '1 second',
                                                  k.created_at + interval '1 microsecond'))
    FROM was WHERE k.key_id = was.key_id
    RETURNING k.*, was.lifetime
), new AS (
    INSERT INTO api_key (key_id, name, hash, hint, operations, signers, networks, created_at, expires_at)
    SELECT $3, old.name, $4, $5, old.operations, old.signers, old.networks, now,
           now + coalesce($7::float8 * interval '1 second', old.lifetime)
    FROM old, clock_timestamp() AS now
    RETURNING *
)
SELECT key_id, name, hint, operations, signers, networks, created_at, expires_at, last_used_at, replaced_by,
       revoked_at
FROM new
UNION ALL
SELECT key_id, name, hint, operations, signers, networks, created_at, expires_at, last_used_at, replaced_by,
       revoked_at
FROM old
