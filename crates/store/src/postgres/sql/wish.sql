-- Leaves a wish, in place of an earlier one, if the transaction has a nonce, is in no block, and has
-- not lost its nonce. It is no change of the transaction's own, so its history and its time stay.
UPDATE tx t SET wish = $2
WHERE t.tx_id = $1 AND t.state IN ('ALLOCATED', 'SUBMITTED') AND t.rival_block IS NULL
RETURNING t.tx_id, t.position, t.tenant, t.chain_id, t.signer, t.request_id, t.request_hash, t.payload,
          t.finality, t.gas_limit, t.nonce, t.state, t.sub_state, t.outcome, t.tx_hash, t.receipt,
          t.told_height, t.told_hash, t.rival, t.wish, t.replaces, t.replaced_by, t.error, t.events, t.sends,
          t.created_at, t.updated_at, t.first_submit_at, t.last_submit_at, t.next_resubmit_at,
          t.last_receipt_check_at, t.confirmed_at
