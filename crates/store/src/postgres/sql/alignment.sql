-- How a lane whose row is locked stands to the history of the database, and what it has given out.
SELECT l.next_nonce, l.fencing_token, l.timeline, stile_timeline() AS here,
       (SELECT n.nonce FROM nonce n WHERE n.chain_id = $1 AND n.signer = $2
        ORDER BY n.nonce DESC LIMIT 1) AS highest
FROM lane l
WHERE l.chain_id = $1 AND l.signer = $2
