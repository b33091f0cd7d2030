-- What is open on each lane: released and suspect nonces, how many holds have run out, and the
-- highest nonce known to have been broadcast.
SELECT w.chain_id, w.signer, open.released, open.released_holds, open.suspect, open.expired,
       (SELECT n.nonce FROM nonce n
        WHERE n.chain_id = w.chain_id AND n.signer = w.signer AND n.status = 'CONSUMED'
        ORDER BY n.nonce DESC LIMIT 1) AS highest_consumed
FROM unnest($1::bigint[], $2::bytea[]) AS w (chain_id, signer)
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(n.nonce ORDER BY n.nonce) FILTER (WHERE n.status = 'RELEASED'), '{}') AS released,
           coalesce(array_agg(n.owner_id ORDER BY n.nonce) FILTER (WHERE n.status = 'RELEASED'), '{}') AS released_holds,
           coalesce(array_agg(n.nonce ORDER BY n.nonce) FILTER (WHERE n.status = 'SUSPECT'), '{}') AS suspect,
           count(*) FILTER (WHERE n.status = 'HELD' AND n.locked_until <= clock_timestamp()) AS expired
    FROM nonce n
    WHERE n.chain_id = w.chain_id AND n.signer = w.signer AND n.status <> 'CONSUMED'
      AND n.owner_kind = 'hold'
      AND (n.status <> 'HELD' OR n.locked_until <= clock_timestamp())
) open
WHERE open.released <> '{}' OR open.suspect <> '{}' OR open.expired > 0
