-- The lowest $4 transactions of each lane that have a nonce from $3 on and are not done, each with the
-- size of its largest attempt. The size is told by the pointer to the bytes; they are not read.
SELECT w.chain_id, w.signer, t.nonce, t.tx_id, a.raw_bytes
FROM unnest($1::bigint[], $2::bytea[], $3::bigint[]) AS w (chain_id, signer, from_nonce)
CROSS JOIN LATERAL (
    SELECT t.tx_id, t.nonce
    FROM tx t
    WHERE t.chain_id = w.chain_id AND t.signer = w.signer AND t.nonce >= w.from_nonce AND t.phase = 'OPEN'
    ORDER BY t.nonce
    LIMIT $4
) t
CROSS JOIN LATERAL (
    SELECT coalesce(max(octet_length(a.raw)), 0)::bigint AS raw_bytes FROM attempt a WHERE a.tx_id = t.tx_id
) a
