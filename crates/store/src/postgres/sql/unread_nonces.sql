-- Nonces of a marked lane below the chain's count ($3) that the lost history may have used, and of which
-- it is not known yet by which transaction. While the lane is open that is every nonce in a caller's
-- hands, too, whenever it was given out: the chain may have what a lost history sent there.
WITH mark AS (
    SELECT l.restored_at, l.restore_settled_at IS NULL AS is_open, l.restored_from,
           least(l.restored_to, $3) AS below
    FROM lane l WHERE l.chain_id = $1 AND l.signer = $2 AND l.restored_at IS NOT NULL
), suspected AS (
    SELECT s.nonce
    FROM mark m CROSS JOIN LATERAL generate_series(m.restored_from, m.below - 1) AS s (nonce)
    WHERE NOT EXISTS (SELECT FROM nonce n WHERE n.chain_id = $1 AND n.signer = $2 AND n.nonce = s.nonce)
    UNION ALL
    SELECT n.nonce
    FROM mark m
    JOIN nonce n ON n.chain_id = $1 AND n.signer = $2 AND n.nonce < $3
    WHERE n.status <> 'CONSUMED' AND n.owner_kind = 'hold'
      AND (m.is_open OR (n.nonce < m.below
                         AND stile_may_be_lost(n.status, n.reason, n.created_at, m.restored_at)))
)
SELECT w.nonce FROM suspected w
WHERE NOT EXISTS (SELECT FROM lost_tx f WHERE f.chain_id = $1 AND f.signer = $2 AND f.nonce = w.nonce)
ORDER BY w.nonce
LIMIT $4
