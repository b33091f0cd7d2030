-- By their callers' names. Columns by name, because the plan is kept while the schema may grow.
SELECT w.place, t.tx_id, t.position, t.tenant, t.chain_id, t.signer, t.request_id, t.request_hash, t.payload,
          t.finality, t.gas_limit, t.nonce, t.state, t.sub_state, t.outcome, t.tx_hash, t.receipt,
          t.told_height, t.told_hash, t.rival, t.wish, t.replaces, t.replaced_by, t.error, t.events, t.sends,
          t.created_at, t.updated_at, t.first_submit_at, t.last_submit_at, t.next_resubmit_at,
          t.last_receipt_check_at, t.confirmed_at
FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::text[])
    WITH ORDINALITY AS w (tenant, chain_id, signer, request_id, place)
JOIN tx t ON t.tenant = w.tenant AND t.chain_id = w.chain_id AND t.signer = w.signer
         AND t.request_id = w.request_id
