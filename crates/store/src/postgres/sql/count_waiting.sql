-- How many transactions of a lane have no nonce, at most $3.
SELECT count(*) AS waits
FROM (SELECT FROM tx t WHERE t.chain_id = $1 AND t.signer = $2 AND t.phase = 'WAITING' LIMIT $3::bigint) w
