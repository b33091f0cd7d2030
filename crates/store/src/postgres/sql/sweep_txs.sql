-- Removes transactions with all that belongs to them, at most $4 of those named ($1), if they have
-- been done for $3 seconds and neither the block that ended them nor the blocks told on top of it reach
-- up to height $2. Rows that somebody has locked are left alone, so that several nodes share the work and
-- nobody waits; whoever changed a row before it was locked is believed.
WITH over AS (
    SELECT t.tx_id, t.chain_id, t.signer, t.nonce
    FROM unnest($1::uuid[]) AS w (tx_id)
    JOIN tx t USING (tx_id)
    WHERE t.phase = 'DONE' AND (t.done_block IS NULL OR greatest(t.done_block, t.told_height) < $2)
      AND t.updated_at <= statement_timestamp() - make_interval(secs => $3)
      -- A nonce that nobody has would look like one that was lost with the database.
      AND NOT EXISTS (SELECT FROM lane l
                      WHERE l.chain_id = t.chain_id AND l.signer = t.signer
                        AND t.nonce >= l.restored_from AND t.nonce < l.restored_to)
    LIMIT $4
    FOR UPDATE OF t SKIP LOCKED
), attempts AS (
    DELETE FROM attempt a USING over o WHERE a.tx_id = o.tx_id
), events AS (
    DELETE FROM tx_event e USING over o WHERE e.tx_id = o.tx_id
), nonces AS (
    DELETE FROM nonce n USING over o
    WHERE n.chain_id = o.chain_id AND n.signer = o.signer AND n.nonce = o.nonce
      AND n.owner_kind = 'tx' AND n.owner_id = o.tx_id
), txs AS (
    DELETE FROM tx t USING over o WHERE t.tx_id = o.tx_id
    RETURNING t.tx_id
)
SELECT count(*) AS removed FROM txs
