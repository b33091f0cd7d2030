-- Finished transactions of one lane ($1, $2) at the nonces from $3 up to $4, of a history that ends at
-- $5, with $7 blocks told on top of each. Blocks rise to $6; the last was confirmed $8 seconds ago.
-- The series is in order, and so is all that is read from it.
WITH seed AS MATERIALIZED (
    SELECT s.nonce, s.hash, s.block_number, s.created_at,
           (lpad(to_hex((extract(epoch FROM s.created_at) * 1000)::bigint), 12, '0') || '7'
            || substr(s.digits, 1, 3) || '8' || substr(s.digits, 4, 15))::uuid AS tx_id,
           sha256('block ' || int8send(s.block_number)) AS block_hash,
           '0x' || encode(s.hash, 'hex') AS hash_text
    FROM (
        SELECT n AS nonce, sha256($2::bytea || int8send(n)) AS hash, md5($2::bytea || int8send(n)) AS digits,
               $6::bigint * n / greatest($5::bigint, 1) AS block_number,
               clock_timestamp() - make_interval(secs => $8::float8 + ($5::bigint - n) * 0.01) AS created_at
        FROM generate_series($3::bigint, $4::bigint - 1) AS n
    ) s
), told AS MATERIALIZED (
    SELECT s.*, '0x' || encode(s.block_hash, 'hex') AS block_text,
           (SELECT string_agg(format('{"blockHash":"0x%s","blockNumber":%s}',
                                     encode(sha256('block ' || int8send(s.block_number + b)), 'hex'),
                                     s.block_number + b), ',' ORDER BY b)
            FROM generate_series(1, $7::bigint) AS b) AS confirmations
    FROM seed s
), txs AS (
    INSERT INTO tx (tx_id, tenant, chain_id, signer, request_id, request_hash, payload, finality, gas_limit,
                    nonce, state, outcome, tx_hash, block_number, block_hash, receipt, told_height, told_hash,
                    events, sends, created_at, updated_at, first_submit_at, last_submit_at, confirmed_at)
    SELECT t.tx_id, '', $1, $2, 'seed-' || t.nonce, sha256(t.hash),
           '{"to":"0x70997970c51812dc3a010c7d01b50e0d17dc79c8","value":"0x38d7ea4c68000","data":"0x"}',
           $7::bigint::text, 21000, t.nonce, 'CONFIRMED', 'success', t.hash, t.block_number, t.block_hash,
           format('{"txHash":"%s","blockNumber":%s,"blockHash":"%s","transactionIndex":0,"status":true,'
                  '"gasUsed":21000,"effectiveGasPrice":"1586181641","contractAddress":null}',
                  t.hash_text, t.block_number, t.block_text)::json,
           t.block_number + $7, sha256('block ' || int8send(t.block_number + $7)), 5, 1, t.created_at,
           t.created_at + interval '4 s', t.created_at, t.created_at, t.created_at + interval '4 s'
    FROM told t
), attempts AS (
    INSERT INTO attempt (tx_id, number, hash, raw, fees, gas_limit, fencing_token, created_at, last_sent_at,
                         sends, said)
    SELECT t.tx_id, 1, t.hash, t.hash || sha256(t.hash) || t.block_hash || substr(t.hash, 1, 22),
           '{"maxFeePerGas":"2172363282","maxPriorityFeePerGas":"1000000000"}', 21000, 1, t.created_at,
           t.created_at, 1, '[{"class":"accepted","endpoint":"127.0.0.1:8545","text":"accepted"}]'
    FROM told t
), events AS (
    INSERT INTO tx_event (tx_id, seq, tenant, chain_id, signer, kind, state, sub_state, at, node_id,
                          fencing_token, data)
    SELECT t.tx_id, e.seq, '', $1, $2, e.kind, e.state, e.sub_state, t.created_at + e.after, 'seed', e.token,
           e.data::json
    FROM told t
    CROSS JOIN LATERAL (VALUES
        (1, 'ACCEPTED', 'CREATED', 'PENDING', interval '0', NULL, '{}'),
        (2, 'BOUND', 'ALLOCATED', 'PENDING', interval '0', 1,
         format('{"gasLimit":"21000","maxFeePerGas":"2172363282","maxPriorityFeePerGas":"1000000000",'
                '"nonce":%s,"txHash":"%s"}', t.nonce, t.hash_text)),
        (3, 'SENT', 'SUBMITTED', 'PENDING', interval '0', 1,
         format('{"endpoints":[{"class":"accepted","endpoint":"127.0.0.1:8545","text":"accepted"}],'
                '"txHash":"%s"}', t.hash_text)),
        (4, 'MINED', 'TRACKING', 'PENDING', interval '1 s', 1,
         format('{"blockHash":"%s","blockNumber":%s,"confirmations":[{"blockHash":"%s","blockNumber":%s}],'
                '"gasUsed":"21000","newFork":false,"status":true,"txHash":"%s"}',
                t.block_text, t.block_number, t.block_text, t.block_number, t.hash_text)),
        (5, 'CONFIRMED', 'CONFIRMED', NULL, interval '4 s', 1,
         format('{"confirmations":[%s],"newFork":false}', t.confirmations))
    ) AS e (seq, kind, state, sub_state, after, token, data)
)
INSERT INTO nonce (chain_id, signer, nonce, owner_kind, owner_id, status, locked_until, tx_hash,
                   fencing_token, created_at, updated_at)
SELECT $1, $2, t.nonce, 'tx', t.tx_id, 'CONSUMED', t.created_at, t.hash, 1, t.created_at, t.created_at
FROM told t
