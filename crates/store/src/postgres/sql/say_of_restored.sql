-- What a person says of a transaction that has no nonce, by compare-and-set on CREATED, with the entry in
-- its history. The lane's mark must be the one that the person has seen, with nothing stepped over since.
WITH marked AS (
    SELECT l.chain_id, l.signer
    FROM tx t JOIN lane l ON l.chain_id = t.chain_id AND l.signer = t.signer
    WHERE t.tx_id = $1 AND l.restored_number = $8 AND l.restored_at = $9 AND l.restored_to = $10
      AND l.timeline = stile_timeline()
    FOR SHARE OF l
), said AS (
    UPDATE tx t
    SET state = $2, sub_state = $3, error = $4, events = t.events + 1, updated_at = clock_timestamp()
    FROM marked m
    WHERE t.tx_id = $1 AND t.state = 'CREATED' AND t.chain_id = m.chain_id AND t.signer = m.signer
    RETURNING t.tx_id, t.position, t.tenant, t.chain_id, t.signer, t.request_id, t.request_hash, t.payload,
              t.finality, t.gas_limit, t.nonce, t.state, t.sub_state, t.outcome, t.tx_hash, t.receipt,
              t.told_height, t.told_hash, t.rival, t.wish, t.replaces, t.replaced_by, t.error, t.events, t.sends,
              t.created_at, t.updated_at, t.first_submit_at, t.last_submit_at, t.next_resubmit_at,
              t.last_receipt_check_at, t.confirmed_at
), told AS (
    INSERT INTO tx_event (tx_id, seq, tenant, chain_id, signer, kind, state, sub_state, at, node_id, data)
    SELECT s.tx_id, s.events, s.tenant, s.chain_id, s.signer, $5, s.state, s.sub_state, s.updated_at, $6, $7
    FROM said s
)
SELECT * FROM said
