-- Removes holds that were given back and whose nonce has gone to somebody else since, with their
-- idempotency keys, at most $2: those given back more than $1 seconds ago.
WITH over AS (
    SELECT p.hold_id, p.chain_id, p.signer, p.nonce FROM past_hold p
    WHERE p.released_at <= statement_timestamp() - make_interval(secs => $1)
    ORDER BY p.released_at
    LIMIT $2
    FOR UPDATE OF p SKIP LOCKED
), keys AS (
    DELETE FROM allocation_key k USING over o
    WHERE k.chain_id = o.chain_id AND k.signer = o.signer AND k.nonce = o.nonce AND k.hold_id = o.hold_id
), holds AS (
    DELETE FROM past_hold p USING over o WHERE p.hold_id = o.hold_id
    RETURNING p.hold_id
)
SELECT count(*) AS removed FROM holds
