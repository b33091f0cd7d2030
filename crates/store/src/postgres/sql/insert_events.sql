-- Entries in histories, in the order given.
INSERT INTO tx_event (tx_id, seq, tenant, chain_id, signer, kind, state, sub_state, fencing_token, data,
                      at, node_id)
SELECT e.tx_id, e.seq, e.tenant, e.chain_id, e.signer, e.kind, e.state, e.sub_state, e.token, e.data, $11, $12
FROM unnest($1::uuid[], $2::int[], $3::text[], $4::bigint[], $5::bytea[], $6::text[], $7::text[], $8::text[],
            $9::bigint[], $10::json[])
    AS e (tx_id, seq, tenant, chain_id, signer, kind, state, sub_state, token, data)
