-- Finished transactions of one chain ($1) that may be removed, at most $4: done for $3 seconds, and
-- not to be reopened by a reorganisation that reaches down to height $2. Those that a block ended,
-- their own or that of the transaction that took their nonce, were ended below it. Other failed ones
-- never had a nonce, or a later nonce of their lane was mined below it.
--
-- Each lane is read from its oldest end, and not at all if the oldest is too young. So this costs
-- the same whatever else the history holds.
SELECT oldest.tx_id
FROM lane l
CROSS JOIN LATERAL (
    (SELECT t.tx_id, t.updated_at FROM tx t
     WHERE t.chain_id = l.chain_id AND t.signer = l.signer AND t.done_block < $2
       AND (SELECT x.updated_at FROM tx x
            WHERE x.chain_id = l.chain_id AND x.signer = l.signer AND x.done_block < $2
            ORDER BY x.done_block LIMIT 1) <= statement_timestamp() - make_interval(secs => $3)
     ORDER BY t.done_block LIMIT $4)
    UNION ALL
    (SELECT t.tx_id, t.updated_at FROM tx t
     WHERE t.chain_id = l.chain_id AND t.signer = l.signer AND t.phase = 'DONE' AND t.done_block IS NULL
       AND (t.nonce IS NULL
            OR t.nonce < (SELECT x.nonce FROM tx x
                          WHERE x.chain_id = l.chain_id AND x.signer = l.signer AND x.done_block < $2
                          ORDER BY x.done_block DESC LIMIT 1))
       AND (SELECT x.updated_at FROM tx x
            WHERE x.chain_id = l.chain_id AND x.signer = l.signer AND x.phase = 'DONE' AND x.done_block IS NULL
            ORDER BY x.position LIMIT 1) <= statement_timestamp() - make_interval(secs => $3)
     ORDER BY t.position LIMIT $4)
) oldest
WHERE l.chain_id = $1 AND oldest.updated_at <= statement_timestamp() - make_interval(secs => $3)
LIMIT $4
