-- Transactions that get their nonce in the commit that accepts them. One whose request id is taken
-- does not come back, nor does one whose nonce was given back and has just gone to somebody else.
-- Positions and the order of insertion as in accept.sql.
WITH wanted AS (
    SELECT w.*, nextval('tx_position') AS position
    FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::bytea[], $5::text[], $6::bytea[], $7::json[],
                $8::text[], $9::bigint[], $10::bigint[], $11::bytea[], $12::timestamptz[], $13::bool[],
                $14::uuid[])
        AS w (tx_id, tenant, chain_id, signer, request_id, request_hash, payload, finality, gas_limit,
              nonce, tx_hash, next_resubmit_at, reissued, replaces)
)
INSERT INTO tx (tx_id, position, tenant, chain_id, signer, request_id, request_hash, payload, finality,
                gas_limit, nonce, tx_hash, next_resubmit_at, replaces, state, sub_state, events, created_at,
                updated_at)
SELECT w.tx_id, w.position, w.tenant, w.chain_id, w.signer, w.request_id, w.request_hash, w.payload,
       w.finality, w.gas_limit, w.nonce, w.tx_hash, w.next_resubmit_at, w.replaces, $15, $16, 2, $17, $17
FROM wanted w
WHERE NOT w.reissued
   OR EXISTS (SELECT FROM nonce n
              WHERE n.chain_id = w.chain_id AND n.signer = w.signer AND n.nonce = w.nonce
                AND n.owner_id = w.tx_id)
ORDER BY w.tenant, w.chain_id, w.signer, w.request_id, w.position
ON CONFLICT (tenant, chain_id, signer, request_id) WHERE request_id IS NOT NULL DO NOTHING
RETURNING tx_id, position
