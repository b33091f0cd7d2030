-- Pausing and resuming need no lease. They raise the token, so that every plan in memory dies.
UPDATE lane
SET paused = $3, fencing_token = fencing_token + 1, updated_at = clock_timestamp()
WHERE chain_id = $1 AND signer = $2
RETURNING fencing_token
