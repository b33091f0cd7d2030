-- Nonces for transactions that have waited. Compare-and-set on CREATED: one that waits no longer
-- does not come back, nor does one whose nonce was given back and has just gone to somebody else.
UPDATE tx t
SET nonce = w.nonce, tx_hash = w.tx_hash, gas_limit = coalesce(t.gas_limit, w.gas_limit),
    next_resubmit_at = w.next_resubmit_at, state = $9, sub_state = $10, events = t.events + 1, updated_at = $11
FROM unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::bigint[], $5::bytea[], $6::bigint[], $7::timestamptz[],
            $8::bool[])
    AS w (tx_id, chain_id, signer, nonce, tx_hash, gas_limit, next_resubmit_at, reissued)
WHERE t.tx_id = w.tx_id AND t.chain_id = w.chain_id AND t.signer = w.signer AND t.state = 'CREATED'
  AND (NOT w.reissued
       OR EXISTS (SELECT FROM nonce n
                  WHERE n.chain_id = w.chain_id AND n.signer = w.signer AND n.nonce = w.nonce
                    AND n.owner_id = w.tx_id))
RETURNING t.tx_id, t.position, t.tenant, t.chain_id, t.signer, t.request_id, t.request_hash, t.payload,
          t.finality, t.gas_limit, t.nonce, t.state, t.sub_state, t.outcome, t.tx_hash, t.receipt,
          t.told_height, t.told_hash, t.rival, t.wish, t.replaces, t.replaced_by, t.error, t.events, t.sends,
          t.created_at, t.updated_at, t.first_submit_at, t.last_submit_at, t.next_resubmit_at,
          t.last_receipt_check_at, t.confirmed_at
