-- First attempts, before any byte of them reaches a chain node.
INSERT INTO attempt (tx_id, number, kind, hash, raw, fees, gas_limit, fencing_token, created_at)
SELECT a.tx_id, 1, a.kind, a.hash, a.raw, a.fees, a.gas_limit, a.token, $8
FROM unnest($1::uuid[], $2::bytea[], $3::bytea[], $4::json[], $5::bigint[], $6::bigint[], $7::text[])
    AS a (tx_id, hash, raw, fees, gas_limit, token, kind)
