-- Holds, lowest nonce first: those that are open and those that are over, each by an index of its own,
-- so that the nonces of transactions in between are not read.
SELECT h.*
FROM (
    (SELECT n.chain_id, n.signer, n.nonce, n.owner_id, n.status, n.locked_until, n.tx_hash, n.reason
     FROM nonce n
     WHERE n.chain_id = $1 AND n.signer = $2 AND n.nonce > $3 AND n.owner_kind = 'hold' AND n.status <> 'CONSUMED'
       AND ($4::text IS NULL OR n.status = $4)
     ORDER BY n.nonce LIMIT $5)
    UNION ALL
    (SELECT n.chain_id, n.signer, n.nonce, n.owner_id, n.status, n.locked_until, n.tx_hash, n.reason
     FROM nonce n
     WHERE n.chain_id = $1 AND n.signer = $2 AND n.nonce > $3 AND n.owner_kind = 'hold' AND n.status = 'CONSUMED'
       AND ($4::text IS NULL OR n.status = $4)
     ORDER BY n.nonce LIMIT $5)
) h
ORDER BY h.nonce
LIMIT $5
