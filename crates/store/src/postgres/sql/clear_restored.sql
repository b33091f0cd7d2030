-- What waits on a lane whose row is locked was never sent, with an entry in each history. What does the
-- same as a transaction that was found and belongs to nobody waits on: that takes a word of its own.
WITH cleared AS (
    UPDATE tx t
    SET state = $3, sub_state = $4, events = t.events + 1, updated_at = clock_timestamp()
    FROM lane l
    WHERE l.chain_id = $1 AND l.signer = $2 AND t.chain_id = $1 AND t.signer = $2 AND t.phase = 'WAITING'
      AND t.state = 'CREATED'
      AND stile_is_marked(l, t)
      AND NOT stile_is_like_lost(t.chain_id, t.signer, t.payload)
    RETURNING t.tx_id, t.position, t.tenant, t.chain_id, t.signer, t.events, t.state, t.sub_state, t.updated_at
), told AS (
    INSERT INTO tx_event (tx_id, seq, tenant, chain_id, signer, kind, state, sub_state, at, node_id, data)
    SELECT c.tx_id, c.events, c.tenant, c.chain_id, c.signer, $5, c.state, c.sub_state, c.updated_at, $6, $7
    FROM cleared c
    ORDER BY c.position
)
SELECT count(*) AS cleared FROM cleared
