-- Lanes whose oldest hold that is over has been so for $1 seconds.
SELECT l.chain_id, l.signer FROM lane l
WHERE (SELECT n.updated_at FROM nonce n
       WHERE n.chain_id = l.chain_id AND n.signer = l.signer AND n.owner_kind = 'hold' AND n.status = 'CONSUMED'
       ORDER BY n.nonce LIMIT 1) <= statement_timestamp() - make_interval(secs => $1)
