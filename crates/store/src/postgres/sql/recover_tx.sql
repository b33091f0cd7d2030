-- A transaction that has no nonce gets that of what was found on chain. Compare-and-set on CREATED.
UPDATE tx t
SET nonce = $4, tx_hash = $5, gas_limit = coalesce(t.gas_limit, $6), state = $7, sub_state = $8,
    events = t.events + 1, updated_at = $9
WHERE t.tx_id = $1 AND t.chain_id = $2 AND t.signer = $3 AND t.state = 'CREATED'
RETURNING t.tx_id, t.position, t.tenant, t.chain_id, t.signer, t.request_id, t.request_hash, t.payload,
          t.finality, t.gas_limit, t.nonce, t.state, t.sub_state, t.outcome, t.tx_hash, t.receipt,
          t.told_height, t.told_hash, t.rival, t.wish, t.replaces, t.replaced_by, t.error, t.events, t.sends,
          t.created_at, t.updated_at, t.first_submit_at, t.last_submit_at, t.next_resubmit_at,
          t.last_receipt_check_at, t.confirmed_at
