-- Lanes that have run out and have open work, as in take_expired.sql, with the time since.
WITH head AS MATERIALIZED (
    SELECT h.chain_id, max(h.height) AS height FROM header h WHERE h.replaced_at IS NULL GROUP BY h.chain_id
), due AS (
    SELECT l.chain_id, l.signer,
           extract(epoch FROM clock_timestamp() - l.expires_at)::float8 AS overdue_secs
    FROM lane l
    WHERE l.expires_at <= clock_timestamp()
      AND (EXISTS (SELECT FROM nonce n
                   WHERE n.chain_id = l.chain_id AND n.signer = l.signer AND n.status <> 'CONSUMED')
           OR EXISTS (SELECT FROM tx t
                      WHERE t.chain_id = l.chain_id AND t.signer = l.signer AND t.phase = 'WAITING')
           OR EXISTS (SELECT FROM tx t
                      WHERE t.chain_id = l.chain_id AND t.signer = l.signer AND t.phase = 'OPEN')
           OR EXISTS (SELECT FROM tx t
                      WHERE t.chain_id = l.chain_id AND t.signer = l.signer
                        AND t.done_block > coalesce(
                            (SELECT h.height FROM head h WHERE h.chain_id = l.chain_id) - $1, -1)))
)
SELECT chain_id, signer, overdue_secs FROM due ORDER BY chain_id, signer LIMIT $2
