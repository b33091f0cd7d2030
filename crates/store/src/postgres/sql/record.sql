-- What happened to transactions of lanes that passed the fence: a compare-and-set on the length of
-- each history, with the new entry and the note on the attempt that was sent in the same statement.
-- A change that lost does not come back, and has written nothing.
WITH change AS (
    SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::bigint[], $5::int[], $6::text[],
                         $7::text[], $8::text[], $9::text[], $10::json[], $11::bool[], $12::json[],
                         $13::bigint[], $14::bytea[], $15::bytea[], $16::bool[], $17::bigint[], $18::bytea[],
                         $19::bool[], $20::text[], $21::bytea[], $22::bool[], $23::json[], $24::bool[],
                         $25::timestamptz[], $26::bool[])
        AS c (tx_id, chain_id, signer, token, events, state,
              sub_state, outcome, kind, data, set_receipt, receipt,
              block_number, block_hash, mined_hash, set_told, told_height, told_hash,
              set_error, error, sent_hash, taken, said, set_resubmit,
              resubmit_at, receipt_checked)
), changed AS (
    UPDATE tx t
    SET state = c.state,
        sub_state = c.sub_state,
        outcome = c.outcome,
        events = t.events + (c.kind IS NOT NULL)::int,
        updated_at = CASE WHEN c.kind IS NULL THEN t.updated_at ELSE $27::timestamptz END,
        confirmed_at = CASE WHEN c.state <> 'CONFIRMED' THEN NULL
                            WHEN t.state = 'CONFIRMED' THEN t.confirmed_at
                            ELSE $27 END,
        receipt = CASE WHEN c.set_receipt THEN c.receipt ELSE t.receipt END,
        block_number = CASE WHEN c.set_receipt THEN c.block_number ELSE t.block_number END,
        block_hash = CASE WHEN c.set_receipt THEN c.block_hash ELSE t.block_hash END,
        -- The attempt that was mined; once it no longer is, the newest.
        tx_hash = CASE WHEN NOT c.set_receipt THEN t.tx_hash
                       WHEN c.receipt IS NOT NULL THEN c.mined_hash
                       ELSE (SELECT a.hash FROM attempt a WHERE a.tx_id = t.tx_id
                             ORDER BY a.number DESC LIMIT 1) END,
        told_height = CASE WHEN c.set_told THEN c.told_height ELSE t.told_height END,
        told_hash = CASE WHEN c.set_told THEN c.told_hash ELSE t.told_hash END,
        error = CASE WHEN c.set_error THEN c.error ELSE t.error END,
        sends = t.sends + (c.sent_hash IS NOT NULL)::int,
        first_submit_at = CASE WHEN c.taken THEN coalesce(t.first_submit_at, $27) ELSE t.first_submit_at END,
        last_submit_at = CASE WHEN c.taken THEN $27 ELSE t.last_submit_at END,
        next_resubmit_at = CASE WHEN c.set_resubmit THEN c.resubmit_at ELSE t.next_resubmit_at END,
        last_receipt_check_at = CASE WHEN c.receipt_checked THEN $27 ELSE t.last_receipt_check_at END
    FROM change c
    WHERE t.tx_id = c.tx_id AND t.chain_id = c.chain_id AND t.signer = c.signer AND t.events = c.events
    RETURNING t.tx_id, t.tenant, t.events, c.chain_id, c.signer, c.token, c.state, c.sub_state, c.kind,
              c.data, c.sent_hash, c.said
), told AS (
    INSERT INTO tx_event (tx_id, seq, tenant, chain_id, signer, kind, state, sub_state, at, node_id,
                          fencing_token, data)
    SELECT d.tx_id, d.events, d.tenant, d.chain_id, d.signer, d.kind, d.state, d.sub_state, $27, $28,
           d.token, d.data
    FROM changed d
    WHERE d.kind IS NOT NULL
), noted AS (
    UPDATE attempt a
    SET sends = a.sends + 1, last_sent_at = $27, said = d.said
    FROM changed d
    WHERE a.hash = d.sent_hash AND a.tx_id = d.tx_id
)
SELECT d.tx_id, d.events FROM changed d
