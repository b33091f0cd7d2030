-- Expired lanes with open work, for whoever comes first: nonces that are not settled, transactions
-- that wait or have a nonce and are not done, and those that a block ended, not buried deeper than
-- $6 blocks under the newest header on record. Where there is no header, nothing is buried.
WITH head AS MATERIALIZED (
    SELECT h.chain_id, max(h.height) AS height FROM header h WHERE h.replaced_at IS NULL GROUP BY h.chain_id
), due AS (
    SELECT l.chain_id, l.signer FROM lane l
    WHERE l.expires_at <= clock_timestamp() AND l.owner_incarnation <> $2
      AND (EXISTS (SELECT FROM nonce n
                   WHERE n.chain_id = l.chain_id AND n.signer = l.signer AND n.status <> 'CONSUMED')
           OR EXISTS (SELECT FROM tx t
                      WHERE t.chain_id = l.chain_id AND t.signer = l.signer AND t.phase = 'WAITING')
           OR EXISTS (SELECT FROM tx t
                      WHERE t.chain_id = l.chain_id AND t.signer = l.signer AND t.phase = 'OPEN')
           OR EXISTS (SELECT FROM tx t
                      WHERE t.chain_id = l.chain_id AND t.signer = l.signer
                        AND t.done_block > coalesce(
                            (SELECT h.height FROM head h WHERE h.chain_id = l.chain_id) - $6, -1)))
    ORDER BY l.chain_id, l.signer
    LIMIT $5
    FOR UPDATE OF l SKIP LOCKED
)
UPDATE lane l
SET owner_node = $1,
    owner_incarnation = $2,
    owner_url = $3,
    fencing_token = l.fencing_token + 1,
    acquired_at = clock_timestamp(),
    expires_at = clock_timestamp() + make_interval(secs => $4),
    updated_at = clock_timestamp()
FROM due d
WHERE l.chain_id = d.chain_id AND l.signer = d.signer
  AND l.expires_at <= clock_timestamp() AND l.owner_incarnation <> $2
RETURNING l.chain_id, l.signer, l.fencing_token, l.expires_at,
          CASE WHEN l.timeline = stile_timeline() THEN l.next_nonce END AS next_nonce, l.paused, l.elsewhere, true AS taken
