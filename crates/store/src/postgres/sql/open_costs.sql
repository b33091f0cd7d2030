-- What the accounts of these lanes will be asked to pay for: what waits for a nonce, the oldest $4 of each
-- lane, and as many of what has a nonce from $3 on and is in no block, each of them with its newest attempt.
-- Call data is left out: it may be long, and its price is in the gas.
SELECT w.chain_id, w.signer, t.tx_id, t.payload, t.gas_limit, t.kind, t.fees, t.offered_gas
FROM unnest($1::bigint[], $2::bytea[], $3::bigint[]) AS w (chain_id, signer, from_nonce)
CROSS JOIN LATERAL (
    (SELECT t.tx_id, t.payload::jsonb - 'data' AS payload, t.gas_limit,
            NULL::text AS kind, NULL::json AS fees, NULL::bigint AS offered_gas
     FROM tx t
     WHERE t.chain_id = w.chain_id AND t.signer = w.signer AND t.phase = 'WAITING'
     ORDER BY t.position
     LIMIT $4)
    UNION ALL
    (SELECT t.tx_id, t.payload::jsonb - 'data', t.gas_limit, a.kind, a.fees, a.gas_limit
     FROM tx t
     CROSS JOIN LATERAL (SELECT a.kind, a.fees, a.gas_limit FROM attempt a
                         WHERE a.tx_id = t.tx_id
                         ORDER BY a.number DESC
                         LIMIT 1) a
     WHERE t.chain_id = w.chain_id AND t.signer = w.signer AND t.phase = 'OPEN' AND t.nonce >= w.from_nonce
       AND t.state <> 'TRACKING' AND t.rival_block IS NULL
     ORDER BY t.nonce
     LIMIT $4)
) t
