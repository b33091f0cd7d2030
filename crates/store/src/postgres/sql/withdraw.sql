-- Withdraws a transaction that has no nonce, by compare-and-set on CREATED, with the entry in its
-- history. Whoever is about to bind it has its row locked, or waits for this to be committed and
-- then finds that it waits no longer.
WITH withdrawn AS (
    UPDATE tx t
    SET state = $2, sub_state = $3, events = t.events + 1, updated_at = clock_timestamp()
    WHERE t.tx_id = $1 AND t.state = 'CREATED'
      -- What may be on the chain is not withdrawn.
      AND NOT EXISTS (SELECT FROM lane l
                      WHERE l.chain_id = t.chain_id AND l.signer = t.signer
                        AND stile_awaits_word(l, t))
    RETURNING t.tx_id, t.position, t.tenant, t.chain_id, t.signer, t.request_id, t.request_hash, t.payload,
              t.finality, t.gas_limit, t.nonce, t.state, t.sub_state, t.outcome, t.tx_hash, t.receipt,
              t.told_height, t.told_hash, t.rival, t.wish, t.replaces, t.replaced_by, t.error, t.events, t.sends,
              t.created_at, t.updated_at, t.first_submit_at, t.last_submit_at, t.next_resubmit_at,
              t.last_receipt_check_at, t.confirmed_at
), told AS (
    INSERT INTO tx_event (tx_id, seq, tenant, chain_id, signer, kind, state, sub_state, at, node_id, data)
    SELECT w.tx_id, w.events, w.tenant, w.chain_id, w.signer, $4, w.state, w.sub_state, w.updated_at, $5, '{}'
    FROM withdrawn w
)
SELECT * FROM withdrawn
