-- Fresh nonces. A plain insert: a row that is there already is an error, never an update.
INSERT INTO nonce (chain_id, signer, nonce, owner_kind, owner_id, status, locked_until,
                   fencing_token, created_at, updated_at)
SELECT h.chain_id, h.signer, h.nonce, 'hold', h.hold_id, 'HELD',
       $6::timestamptz + make_interval(secs => $7), h.token, $6, $6
FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::uuid[], $5::bigint[])
    AS h (chain_id, signer, nonce, hold_id, token)
