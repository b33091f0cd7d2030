SELECT key_id, hash, operations, signers, networks,
       extract(epoch FROM expires_at - clock_timestamp())::float8 AS remaining_secs
FROM api_key
WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())
