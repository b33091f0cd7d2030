-- What happened to transactions of lanes that passed the fence: a compare-and-set on the length of
-- each history, with the new entry, the note on the attempt that was sent, the new attempt and the
-- transaction made in its place in the same statement. A change that lost does not come back, and has
-- written nothing.
WITH change AS (
    SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::bigint[], $5::int[], $6::text[],
                         $7::text[], $8::text[], $9::text[], $10::json[], $11::bool[], $12::json[],
                         $13::bigint[], $14::bytea[], $15::bytea[], $16::bool[], $17::bigint[], $18::bytea[],
                         $19::bool[], $20::text[], $21::bytea[], $22::bool[], $23::json[], $24::bool[],
                         $25::timestamptz[], $26::bool[], $27::bytea[], $28::bool[], $29::json[], $30::bigint[],
                         $31::text[], $32::uuid[])
        AS c (tx_id, chain_id, signer, token, events, state,
              sub_state, outcome, kind, data, set_receipt, receipt,
              block_number, block_hash, mined_hash, set_told, told_height, told_hash,
              set_error, error, sent_hash, taken, said, set_resubmit,
              resubmit_at, receipt_checked, attempt_hash, set_rival, rival, rival_block,
              wish_done, successor)
), changed AS (
    UPDATE tx t
    SET state = c.state,
        sub_state = c.sub_state,
        outcome = c.outcome,
        events = t.events + (c.kind IS NOT NULL)::int,
        updated_at = CASE WHEN c.kind IS NULL THEN t.updated_at ELSE $33::timestamptz END,
        confirmed_at = CASE WHEN c.state <> 'CONFIRMED' THEN NULL
                            WHEN t.state = 'CONFIRMED' THEN t.confirmed_at
                            ELSE $33 END,
        receipt = CASE WHEN c.set_receipt THEN c.receipt ELSE t.receipt END,
        block_number = CASE WHEN c.set_receipt THEN c.block_number ELSE t.block_number END,
        block_hash = CASE WHEN c.set_receipt THEN c.block_hash ELSE t.block_hash END,
        -- The attempt that was mined; otherwise the newest.
        tx_hash = CASE WHEN c.receipt IS NOT NULL THEN c.mined_hash
                       WHEN c.attempt_hash IS NOT NULL THEN c.attempt_hash
                       WHEN NOT c.set_receipt THEN t.tx_hash
                       ELSE (SELECT a.hash FROM attempt a WHERE a.tx_id = t.tx_id
                             ORDER BY a.number DESC LIMIT 1) END,
        told_height = CASE WHEN c.set_told THEN c.told_height ELSE t.told_height END,
        told_hash = CASE WHEN c.set_told THEN c.told_hash ELSE t.told_hash END,
        rival = CASE WHEN c.set_rival THEN c.rival ELSE t.rival END,
        rival_block = CASE WHEN c.set_rival THEN c.rival_block ELSE t.rival_block END,
        wish = CASE WHEN c.wish_done = '' OR c.wish_done = t.wish::text THEN NULL ELSE t.wish END,
        replaced_by = coalesce(c.successor, t.replaced_by),
        error = CASE WHEN c.set_error THEN c.error ELSE t.error END,
        sends = t.sends + (c.sent_hash IS NOT NULL)::int,
        first_submit_at = CASE WHEN c.taken THEN coalesce(t.first_submit_at, $33) ELSE t.first_submit_at END,
        last_submit_at = CASE WHEN c.taken THEN $33 ELSE t.last_submit_at END,
        next_resubmit_at = CASE WHEN c.set_resubmit THEN c.resubmit_at ELSE t.next_resubmit_at END,
        last_receipt_check_at = CASE WHEN c.receipt_checked THEN $33 ELSE t.last_receipt_check_at END
    FROM change c
    WHERE t.tx_id = c.tx_id AND t.chain_id = c.chain_id AND t.signer = c.signer AND t.events = c.events
      -- What was made anew stays closed, unless the other one was withdrawn; the trigger says so too.
      AND (t.replaced_by IS NULL OR t.state <> 'FAILED' OR c.state = 'FAILED'
           OR EXISTS (SELECT FROM tx s
                      WHERE s.tx_id = t.replaced_by AND s.state = 'FAILED' AND s.nonce IS NULL))
      -- What may be on the chain is not refused for what the chain says of it now.
      AND (c.state <> 'FAILED' OR t.state <> 'CREATED'
           OR NOT EXISTS (SELECT FROM lane l
                          WHERE l.chain_id = t.chain_id AND l.signer = t.signer AND stile_awaits_word(l, t)))
    RETURNING t.tx_id, t.tenant, t.events, c.chain_id, c.signer, c.token, c.state, c.sub_state, c.kind,
              c.data, c.sent_hash, c.said
), attempted AS (
    INSERT INTO attempt (tx_id, number, kind, hash, raw, fees, gas_limit, fencing_token, created_at)
    SELECT d.tx_id, coalesce((SELECT max(a.number) FROM attempt a WHERE a.tx_id = d.tx_id), 0) + 1,
           n.kind, n.hash, n.raw, n.fees, n.gas_limit, d.token, $33
    FROM unnest($35::uuid[], $36::text[], $37::bytea[], $38::bytea[], $39::json[], $40::bigint[])
        AS n (tx_id, kind, hash, raw, fees, gas_limit)
    JOIN changed d USING (tx_id)
), accepted AS (
    INSERT INTO tx (tx_id, tenant, chain_id, signer, request_id, request_hash, payload, finality, gas_limit,
                    replaces, state, sub_state, events, created_at, updated_at)
    SELECT n.tx_id, n.tenant, n.chain_id, n.signer, n.request_id, n.request_hash, n.payload, n.finality,
           n.gas_limit, d.tx_id, $51, $52, 1, $33, $33
    FROM unnest($41::uuid[], $42::uuid[], $43::text[], $44::bigint[], $45::bytea[], $46::text[], $47::bytea[],
                $48::json[], $49::text[], $50::bigint[])
        AS n (replaces, tx_id, tenant, chain_id, signer, request_id, request_hash, payload, finality, gas_limit)
    JOIN changed d ON d.tx_id = n.replaces
    RETURNING tx_id, tenant, chain_id, signer, state, sub_state
), told AS (
    INSERT INTO tx_event (tx_id, seq, tenant, chain_id, signer, kind, state, sub_state, at, node_id,
                          fencing_token, data)
    SELECT d.tx_id, d.events, d.tenant, d.chain_id, d.signer, d.kind, d.state, d.sub_state, $33, $34,
           d.token, d.data
    FROM changed d
    WHERE d.kind IS NOT NULL
    UNION ALL
    SELECT a.tx_id, 1, a.tenant, a.chain_id, a.signer, $53, a.state, a.sub_state, $33, $34, NULL, '{}'
    FROM accepted a
), noted AS (
    UPDATE attempt a
    SET sends = a.sends + 1, last_sent_at = $33, said = d.said
    FROM changed d
    WHERE a.hash = d.sent_hash AND a.tx_id = d.tx_id
)
SELECT d.tx_id, d.events FROM changed d
