-- The beginning of expired_lanes.sql and take_expired.sql: lanes that have run out and have open work. That is nonces
-- that are not settled, transactions that wait or have a nonce and are not done, and those that a block ended, not
-- buried deeper than $1 blocks under the newest header on record. Where there is no header, nothing is buried.
WITH head AS MATERIALIZED (
    SELECT h.chain_id, max(h.height) AS height FROM header h WHERE h.replaced_at IS NULL GROUP BY h.chain_id
), due AS (
    SELECT l.chain_id, l.signer, l.expires_at FROM lane l
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
