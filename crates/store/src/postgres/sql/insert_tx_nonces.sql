-- Fresh nonces of transactions. A plain insert: a row that is there already is an error, never an
-- update. CONSUMED from the start: a transaction never gives its nonce back.
INSERT INTO nonce (chain_id, signer, nonce, owner_kind, owner_id, status, tx_hash, locked_until,
                   fencing_token, created_at, updated_at)
SELECT h.chain_id, h.signer, h.nonce, 'tx', h.tx_id, 'CONSUMED', h.tx_hash, $7, h.token, $7, $7
FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::uuid[], $5::bytea[], $6::bigint[])
    AS h (chain_id, signer, nonce, tx_id, tx_hash, token)
